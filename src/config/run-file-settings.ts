import type { Setting } from './setting.ts'
import { gib, kib, size, wholeNumber } from './setting-values.ts'

const days = 'days from 1 to 3650'

/** Settings of the artifacts and caches of workflow runs. */
export const runFileSettings = {
  artifactMaxBytes: {
    variable: 'SVC_ARTIFACT_MAX',
    description: 'Maximum size of an artifact of a workflow run, compressed.',
    fallback: '2GiB',
    ...size(kib, 1024 * gib),
  } satisfies Setting<number>,
  artifactsRepositoryMaxBytes: {
    variable: 'SVC_ARTIFACTS_REPOSITORY_MAX',
    description: 'Maximum size of all artifacts of a repository; beyond it, uploads are rejected.',
    fallback: '10GiB',
    ...size(kib, 1024 * 1024 * gib),
  } satisfies Setting<number>,
  artifactDays: {
    variable: 'SVC_ARTIFACT_DAYS',
    description: 'Days for which an artifact is kept, unless its workflow says otherwise.',
    accepts: days,
    fallback: '30',
    parse: wholeNumber(1, 3650),
  } satisfies Setting<number>,
  artifactMaxDays: {
    variable: 'SVC_ARTIFACT_DAYS_MAX',
    description: 'Maximum number of days for which a workflow can keep an artifact.',
    accepts: days,
    fallback: '90',
    parse: wholeNumber(1, 3650),
  } satisfies Setting<number>,
  cacheMaxBytes: {
    variable: 'SVC_CACHE_MAX',
    description: 'Maximum size of one cache of workflow runs, compressed.',
    fallback: '2GiB',
    ...size(kib, 1024 * gib),
  } satisfies Setting<number>,
  cachesRepositoryMaxBytes: {
    variable: 'SVC_CACHES_REPOSITORY_MAX',
    description:
      'Maximum size of all caches of a repository; beyond it, the least recently used are removed.',
    fallback: '5GiB',
    ...size(kib, 1024 * 1024 * gib),
  } satisfies Setting<number>,
  cachesMaxBytes: {
    variable: 'SVC_CACHES_MAX',
    description:
      'Maximum size of the caches of all repositories; beyond it, the least recently used are removed.',
    fallback: '20GiB',
    ...size(kib, 1024 * 1024 * gib),
  } satisfies Setting<number>,
  cacheDays: {
    variable: 'SVC_CACHE_DAYS',
    description: 'Days after which a cache that no run uses is removed.',
    accepts: days,
    fallback: '7',
    parse: wholeNumber(1, 3650),
  } satisfies Setting<number>,
}
