import type { Setting } from './setting.ts'
import { gib, onOrOff, size } from './setting-values.ts'

/** Settings of the web pages. */
export const pageSettings = {
  pages: {
    variable: 'SVC_PAGES',
    description: 'Whether the service has web pages.',
    ...onOrOff,
    fallback: 'on',
  } satisfies Setting<boolean>,
  pagesCacheBytes: {
    variable: 'SVC_PAGES_CACHE',
    description: 'Memory for the cache of pages of code and history. 0 disables it.',
    fallback: '64MiB',
    ...size(0, 1024 * gib),
  } satisfies Setting<number>,
  webAnonymousRead: {
    variable: 'SVC_WEB_ANONYMOUS_READ',
    description:
      'Which pages of all repositories can be read without a login: none, those of the current code, or also history, diffs and searches, which cost more.',
    accepts: 'off, code or all',
    fallback: 'off',
    parse: (text) => (text === 'off' || text === 'code' || text === 'all' ? text : undefined),
  } satisfies Setting<'off' | 'code' | 'all'>,
}
