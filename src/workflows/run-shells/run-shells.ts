import type { Principal } from '#access/principal.ts'
import { type Clock, dayMs } from '#base/clock.ts'
import type { Database } from '#database/database.ts'
import type { Nodes } from '#database/nodes/nodes.ts'
import { createSharedNotifier } from '#database/nodes/shared-notifier.ts'
import type { JsonRoute } from '#http/route.ts'
import type { Repositories } from '#repositories/repositories.ts'
import type { Vault } from '#secrets/vault/vault.ts'
import {
  deleteFailedWorkspaces,
  expireFailedWorkspaces,
  markLost,
} from './failed-workspace-store.ts'
import { deleteEndedShells } from './run-shell-store.ts'
import { runnerShellRoutes } from './runner-shell-routes.ts'
import { createRunnerShells } from './runner-shells.ts'
import { createShellLife } from './shell-life.ts'
import { createShellStreams } from './shell-streams.ts'
import {
  type FindRun,
  requireShellPermissions,
  shellPermission,
  userShellRoutes,
} from './user-shell-routes.ts'
import { createUserShells, workspaceSeenMs } from './user-shells.ts'

/** Shells in the workspaces of failed jobs, which runners keep for a while. */
export type RunShells = {
  routes: JsonRoute[]
  /** Ends shells whose time is over or whose user or runner is lost, and forgets workspaces of lost runners. */
  sweep: () => Promise<void>
  /** Ends the shells of a repository that is about to be deleted, and has its workspaces removed. */
  endOf: (repositoryId: string) => Promise<void>
  /** Ends the shells of a runner that is lost with its workspaces, given by its name. */
  onRunnerLost: (runner: string) => Promise<void>
}

type Dependencies = {
  db: Database
  nodes: Nodes
  repositories: Pick<Repositories, 'open' | 'reopen'>
  clock: Clock
  vault: () => Promise<Vault>
  /** Returns a principal as of now; undefined when its token was deleted or has expired. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
  findRun: FindRun
  /** The run that the token of a run is for. Throws `run_not_found`. */
  heldRun: Parameters<typeof runnerShellRoutes>[0]['heldRun']
}

/** How long the last output of a shell that has ended can be read. */
const endedKeptMs = 60_000
const missedSightings = 5

export function createRunShells(dependencies: Dependencies): RunShells {
  const { db, nodes, repositories, clock, vault, refresh, findRun, heldRun } = dependencies
  const changes = createSharedNotifier(nodes, 'shells')
  const life = createShellLife({
    db,
    changes,
    clock,
    refresh,
    async reopen(principal, repository) {
      requireShellPermissions(principal)
      return repositories.reopen(principal, repository, shellPermission, 'owner')
    },
  })
  const streams = createShellStreams({ db, changes, vault })
  const parts = { db, changes, clock, life, streams, vault }

  return {
    routes: [
      ...userShellRoutes({ repositories, findRun, shells: createUserShells(parts) }),
      ...runnerShellRoutes({ shells: createRunnerShells(parts), heldRun }),
    ],

    async sweep() {
      await life.sweep()
      const now = clock.now()
      await deleteEndedShells(db, now - endedKeptMs)
      const seenBefore = now - missedSightings * workspaceSeenMs
      await expireFailedWorkspaces(db, { now, seenBefore, removedBefore: now - dayMs })
    },

    async endOf(repositoryId) {
      await life.endWhere(
        (shell) => shell.repositoryId === repositoryId,
        'The repository was deleted.',
      )
      const holders = await deleteFailedWorkspaces(db, { repositoryId })
      for (const holder of holders) changes.notify(holder)
    },

    async onRunnerLost(runner) {
      const holders = await markLost(db, runner, clock.now())
      await life.endWhere(({ holder }) => holders.includes(holder), 'The runner was lost.')
    },
  }
}
