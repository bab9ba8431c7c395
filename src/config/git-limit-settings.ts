import type { Setting } from './setting.ts'
import { gib, kib, mib, size, wholeNumber } from './setting-values.ts'

/** Limits of Git processes other than those of pushes, imports and maintenance. */
export const gitLimitSettings = {
  gitMemoryMaxBytes: {
    variable: 'SVC_GIT_MEMORY_MAX',
    description:
      'Maximum memory of each Git process that serves a fetch, a clone or an archive, or reads a repository. Pushes, imports and maintenance have their own limits.',
    fallback: '2GiB',
    ...size(64 * mib, 1024 * gib),
  } satisfies Setting<number>,
  commitBodyMaxBytes: {
    variable: 'SVC_COMMIT_BODY_MAX',
    description:
      'Maximum size of the request that makes a commit through the API, with all contents. At most 4 requests larger than SVC_JSON_BODY_MAX are worked on at a time, 2 of one user, and each takes about six times its size in memory.',
    fallback: '16MiB',
    ...size(kib, 256 * mib),
  } satisfies Setting<number>,
  gitCpuMaxSeconds: {
    variable: 'SVC_GIT_CPU_SECONDS',
    description:
      'Maximum CPU time of each Git process that serves a request. The limit for imports, maintenance and checks is one day.',
    accepts: 'seconds from 1 to 604800',
    fallback: '1800',
    parse: wholeNumber(1, 604_800),
  } satisfies Setting<number>,
}
