import type { Clock } from '#base/clock.ts'
import type { Log } from '#base/log.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { ObjectPool } from '#git/objects/object-pool.ts'
import type { Git } from '#git/process/git-process.ts'
import type { ReusedProcesses } from '#git/process/reused-processes.ts'
import type { RefCache } from '#git/refs/ref-cache.ts'
import type { FindRequest } from '#http/route.ts'
import type { Repositories, Repository } from '#repositories/repositories.ts'
import type { RevisionFinder } from '#repositories/revision-finder.ts'
import type { Protections } from '#repositories/rights/protections.ts'
import type { CachedResponses } from './cached-responses.ts'
import type { CommitsById } from './commits-by-id.ts'
import type { DiskCache } from './disk-cache.ts'
import type { GitTasks } from './git-tasks.ts'
import type { LastCommits } from './last-commits/last-commits.ts'
import type { Trees } from './trees.ts'

/** What the routes of this folder share. */
export type BrowseParts = {
  git: Git
  repositories: Pick<Repositories, 'open'>
  protections: Pick<Protections, 'list'>
  pool: ObjectPool
  revisions: RevisionFinder
  refCache: RefCache
  reused: ReusedProcesses
  tasks: GitTasks
  /** For archives, apart from all other processes. */
  archives: GitTasks
  cached: CachedResponses
  commits: CommitsById
  trees: Trees
  lastCommits: LastCommits
  /** Blame that took git long, as JSON. */
  keptBlame: Pick<DiskCache, 'load' | 'save'>
  settings: PlainSettings
  clock: Clock
  log: Log
}

/** Opens the repository of a route that reads. */
export function openToRead({ repositories }: Pick<BrowseParts, 'repositories'>) {
  return ({ principal, permission, params }: FindRequest<{ name: string }>): Promise<Repository> =>
    repositories.open(principal, params.name, permission)
}

export const missingRepository = ['repository_not_found', 'repository_importing'] as const
