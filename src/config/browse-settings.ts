import type { Setting } from './setting.ts'
import { gib, size, wholeNumber } from './setting-values.ts'

/** Limits of reading repositories without a clone. */
export const browseSettings = {
  browseCacheBytes: {
    variable: 'SVC_BROWSE_CACHE_SIZE',
    description:
      'Memory for cached responses of the API about trees, commits and other objects. With 0 nothing is cached.',
    fallback: '64MiB',
    ...size(0, 1024 * gib),
  } satisfies Setting<number>,
  maxConcurrentBrowses: {
    variable: 'SVC_BROWSES_AT_ONCE',
    description:
      'Maximum number of Git processes that compute responses of the API about objects, at most three quarters of them for one user or repository. Default: 2 per core.',
    accepts: 'a whole number from 1 to 10000',
    fallback: '',
    parse: wholeNumber(1, 10_000),
  } satisfies Setting<number>,
  maxConcurrentArchives: {
    variable: 'SVC_ARCHIVES_AT_ONCE',
    description:
      'Maximum number of archives that are sent over HTTP at the same time, at most three quarters of them for one user or repository, and apart from them of artifacts that are converted. Default: 1 per core.',
    accepts: 'a whole number from 1 to 10000',
    fallback: '',
    parse: wholeNumber(1, 10_000),
  } satisfies Setting<number>,
  browseSeconds: {
    variable: 'SVC_BROWSE_SECONDS',
    description:
      'Maximum duration of a Git process that computes a response of the API about objects, except archives.',
    accepts: 'seconds from 1 to 3600',
    fallback: '10',
    parse: wholeNumber(1, 3600),
  } satisfies Setting<number>,
}
