import type { Setting } from './setting.ts'
import { gib, mib, size, wholeNumber } from './setting-values.ts'

/** Limits of each Git process that are not of pushes, imports or maintenance. */
export const gitLimitSettings = {
  gitMemoryMaxBytes: {
    variable: 'SVC_GIT_MEMORY_MAX',
    description:
      'Most memory that each Git process may take that serves a fetch, a clone or an archive, or reads a repository; pushes, imports and maintenance have limits of their own.',
    fallback: '2GiB',
    ...size(64 * mib, 1024 * gib),
  } satisfies Setting<number>,
  gitCpuMaxSeconds: {
    variable: 'SVC_GIT_CPU_SECONDS',
    description:
      'Most processor time that each Git process may take that serves a request; imports, maintenance and checks may take a day.',
    accepts: 'seconds from 1 to 604800',
    fallback: '1800',
    parse: wholeNumber(1, 604_800),
  } satisfies Setting<number>,
}
