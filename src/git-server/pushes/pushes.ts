import type { Principal } from '#access/principal.ts'
import { type Clock, increasing } from '#base/clock.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import type { Log } from '#base/log.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import type { Publish } from '#events/events.ts'
import type { Git } from '#git/process/git-process.ts'
import type { Route } from '#http/route.ts'
import type { Directories } from '#repositories/directories.ts'
import type { Protections } from '#repositories/protections.ts'
import type { Repositories } from '#repositories/repositories.ts'
import type { RepositoryHolds } from '#repositories/repository-holds.ts'
import type { Store } from '#repositories/store/store.ts'
import { createWaitingPushes } from '../authorize-push/await-runs.ts'
import { type CheckPush, createCheckPush } from '../authorize-push/check-push.ts'
import type { LeakGuard } from '../leak-guard/leak-guard.ts'
import type { PushAuthority, RunAwaited } from '../push/push.ts'
import type { GitLimiters } from '../requests/git-limiters.ts'
import type { DefaultBranches } from './default-branches.ts'
import { createLocalPushLifecycle } from './local-push-lifecycle.ts'
import { createPushJournal } from './push-journal.ts'
import { pushRoutes } from './push-routes.ts'
import { createSharedPushLifecycle } from './shared-push-lifecycle.ts'
import { createUndo } from './undo.ts'

/** The parts of receive-pack that need the database, which only the main process has. */
export type Pushes = PushAuthority & {
  /** The routes of the journal of pushes, and of undo. */
  routes: Route[]
  defaultBranches: DefaultBranches
  checkPush: CheckPush
  /** Finalizes or discards every unfinished push whose git has ended. */
  sweep: () => Promise<void>
  /** Releases retained commits whose period is over. */
  expire: () => Promise<void>
  /** Deletes pushes older than the retention period from the journal. */
  prune: () => Promise<void>
  /** Refuses the pushes that wait for their runs: the server is about to stop. */
  endWaits: () => void
  /** Waits until all pushes are finalized; one that fails is left to the next start of the server. */
  drain: () => Promise<void>
}

type Dependencies = {
  db: Database
  publish: Publish
  git: Git
  /** Reads a principal again; undefined when its token or key is no longer valid. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
  repositories: Repositories
  protections: Protections
  /** Whether a workflow file has a successful run at a commit. */
  hasSuccessfulRun: (repositoryId: string, commit: string, file: string) => Promise<boolean>
  runAwaited: RunAwaited
  directories: Directories
  store: Store
  leakGuard: LeakGuard
  repositoryHolds: Pick<RepositoryHolds, 'acquire'>
  limiters: Pick<GitLimiters, 'push'>
  settings: Pick<
    PlainSettings,
    'eventsKeptDays' | 'undoDays' | 'pushMemoryMaxBytes' | 'pushWaitSeconds' | 'maxWaitingPushes'
  >
  clock: Clock
  faultPoint: FaultPoint
  log: Log
}

export function createPushes(dependencies: Dependencies): Pushes {
  const { db, git, store, repositories, limiters, settings, clock } = dependencies
  const journal = createPushJournal({ db, settings, clock })
  const { shared } = store
  const common = { ...dependencies, clock: increasing(clock) }
  const lifecycle = shared
    ? createSharedPushLifecycle({ ...common, shared })
    : createLocalPushLifecycle(common)
  const undo = createUndo({ db, git, pushes: lifecycle, pushJournal: journal, limiters })
  const waiting = createWaitingPushes(dependencies)
  return {
    awaitRuns: waiting.awaitRuns,
    endWaits: waiting.stop,
    authorize: lifecycle.authorize,
    finalize: lifecycle.finalize,
    routes: pushRoutes({ db, repositories, pushJournal: journal, undo }),
    defaultBranches: lifecycle.defaultBranches,
    checkPush: createCheckPush(dependencies),
    sweep: () => lifecycle.sweep(),
    expire: lifecycle.expire,
    prune: journal.prune,
    drain: lifecycle.drain,
  }
}
