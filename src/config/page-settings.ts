import type { Setting } from './setting.ts'

/** Settings of the web pages. */
export const pageSettings = {
  pages: {
    variable: 'SVC_PAGES',
    description: 'Whether the service has web pages.',
    accepts: 'on or off',
    fallback: 'on',
    parse: (text) => (text === 'on' ? true : text === 'off' ? false : undefined),
  } satisfies Setting<boolean>,
  webAnonymousRead: {
    variable: 'SVC_WEB_ANONYMOUS_READ',
    description:
      'Which pages of all repositories can be read without a login: none, those of the current code, or also history, diffs and searches, which cost more.',
    accepts: 'off, code or all',
    fallback: 'off',
    parse: (text) => (text === 'off' || text === 'code' || text === 'all' ? text : undefined),
  } satisfies Setting<'off' | 'code' | 'all'>,
}
