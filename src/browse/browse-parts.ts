import type { Clock } from '#base/clock.ts'
import type { Log } from '#base/log.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { ObjectPool } from '#git/objects/object-pool.ts'
import type { Git } from '#git/process/git-process.ts'
import type { ReusedProcesses } from '#git/process/reused-processes.ts'
import type { RefCache } from '#git/refs/ref-cache.ts'
import type { LfsObjects } from '#repositories/lfs-objects.ts'
import { openProblems } from '#repositories/open-repository.ts'
import type { Repositories } from '#repositories/repositories.ts'
import type { RevisionFinder } from '#repositories/revision-finder.ts'
import type { Protections } from '#repositories/rights/protections.ts'
import type { Store } from '#repositories/store/store.ts'
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
  store: Pick<Store, 'at'>
  lfsObjects: Pick<LfsObjects, 'sizesOf' | 'open'>
  protections: Pick<Protections, 'listInForce'>
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

/** The problems of routes that read what a revision names. */
export const revisionProblems = [
  ...openProblems,
  'revision_not_found',
  'revision_ambiguous',
] as const

/** The problems of routes that may start git. */
export const taskProblems = ['git_limit_exceeded', 'git_busy'] as const
