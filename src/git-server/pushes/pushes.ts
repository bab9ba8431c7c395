import { increasing } from '#base/clock.ts'
import { createTaskGroup } from '#base/concurrency/task-group.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Route } from '#http/route.ts'
import { findBytesLeft } from '#repositories/namespace-limits.ts'
import type { Repositories } from '#repositories/repositories.ts'
import type { Store } from '#repositories/store/store.ts'
import { createWaitingPushes, type WaitingPushParts } from '../authorize-push/await-runs.ts'
import { type CheckPush, createCheckPush } from '../authorize-push/check-push.ts'
import type { PushAuthority } from '../push/push.ts'
import type { GitLimiters } from '../requests/git-limiters.ts'
import type { DefaultBranches } from './default-branches.ts'
import { createLocalKeeper, createSharedKeeper, type KeepCommits } from './keep-commits.ts'
import { createLocalPushLifecycle, type LocalPushParts } from './local-push-lifecycle.ts'
import { createPushJournal, type PushJournal } from './push-journal.ts'
import type { PushLifecycle } from './push-lifecycle.ts'
import { pushRoutes } from './push-routes.ts'
import { createSharedPushLifecycle } from './shared-push-lifecycle.ts'
import { createUndo } from './undo.ts'

/** The parts of receive-pack that need the database, which only the main process has. */
export type Pushes = PushAuthority & {
  /** The routes of the journal of pushes, and of undo. */
  routes: Route[]
  defaultBranches: DefaultBranches
  checkPush: CheckPush
  pusherOf: PushJournal['pusherOf']
  hasUnfinished: PushJournal['hasUnfinished']
  /** Makes a version of a change of a commit of the repository. */
  makeVersion: PushLifecycle['makeVersion']
  commits: KeepCommits
  apply: PushLifecycle['apply']
  sweep: PushLifecycle['sweep']
  /** Releases retained commits whose period is over. */
  expire: () => Promise<void>
  /** Deletes pushes older than the retention period from the journal. */
  prune: () => Promise<void>
  /** Refuses the pushes that wait for their runs: the server is about to stop. */
  endWaits: () => void
  /** Waits until all pushes are finalized; one that fails is left to the next start of the server. */
  drain: () => Promise<void>
}

export type PushesParts = LocalPushParts &
  WaitingPushParts & {
    repositories: Repositories
    store: Store
    limiters: Pick<GitLimiters, 'push'>
    settings: Pick<PlainSettings, 'eventsKeptDays'>
  }

export function createPushes(dependencies: PushesParts): Pushes {
  const { db, git, store, proposals, repositories, limiters, settings, clock } = dependencies
  const journal = createPushJournal({ db, settings, clock })
  const { shared } = store
  const common = { ...dependencies, clock: increasing(clock) }
  const lifecycle = shared
    ? createSharedPushLifecycle({ ...common, shared })
    : createLocalPushLifecycle(common)
  const undo = createUndo({ db, git, pushes: lifecycle, pushJournal: journal, limiters })
  const waiting = createWaitingPushes(dependencies)
  const following = createTaskGroup()
  return {
    awaitRuns: waiting.awaitRuns,
    async requireBytesLeft({ id, namespaceId }, bytes) {
      const left = namespaceId === null ? undefined : await findBytesLeft(db, id)
      if (left && bytes > left.bytes) throw left.problem
      return left?.bytes ?? Number.POSITIVE_INFINITY
    },
    endWaits: waiting.stop,
    authorize: lifecycle.authorize,
    async finalize(push) {
      const isFinished = await lifecycle.finalize(push)
      // Not awaited: a push is done when its refs have moved.
      if (push.id !== undefined && !push.proposal)
        void following.add(proposals.follow(push.repository, push.principal))
      return isFinished
    },
    propose: lifecycle.propose,
    pusherOf: journal.pusherOf,
    hasUnfinished: journal.hasUnfinished,
    makeVersion: lifecycle.makeVersion,
    routes: pushRoutes({ db, repositories, pushJournal: journal, undo }),
    defaultBranches: lifecycle.defaultBranches,
    checkPush: createCheckPush(dependencies),
    sweep: lifecycle.sweep,
    apply: lifecycle.apply,
    commits: shared
      ? createSharedKeeper({ ...dependencies, shared })
      : createLocalKeeper(dependencies),
    expire: lifecycle.expire,
    prune: journal.prune,
    async drain() {
      await following.settled()
      await lifecycle.drain()
    },
  }
}
