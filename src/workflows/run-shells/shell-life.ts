import { LRUCache } from 'lru-cache'
import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import type { Notifier } from '#base/concurrency/notifier.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { RunShellRow } from '#database/schema.ts'
import { recordActions } from '#events/audit/record.ts'
import type { Actor } from '#events/events.ts'
import type { Repository } from '#repositories/repositories.ts'
import { listOpenShells, updateShell } from './run-shell-store.ts'

/** How a shell ended. `exitCode` is null when it was killed or did not start; `reason` is then a sentence. */
type ShellEnd = { exitCode: number | null; reason: string }

/** Decides when shells end. */
export type ShellLife = {
  /** Ends a shell that has not ended, and records it; by default as something that the server does for its user. */
  end: (shell: RunShellRow, end: ShellEnd, actor?: Actor) => Promise<void>
  /** Ends a shell whose time is over, or whose user or runner is lost. Returns whether it has ended. */
  endIfOver: (shell: RunShellRow) => Promise<boolean>
  /** Ends it also when its user has lost access, which takes queries. */
  endIfLost: (shell: RunShellRow) => Promise<boolean>
  /** The same for all shells. */
  sweep: () => Promise<void>
  /** Ends the shells to which a condition applies. */
  endWhere: (applies: (shell: RunShellRow) => boolean, reason: string) => Promise<void>
}

type Dependencies = {
  db: Database
  changes: Notifier
  clock: Clock
  /** Returns a principal as of now; undefined when its token was deleted or has expired. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
  /** Authorizes a principal to use shells in a repository. Throws the Problem of a new request. */
  reopen: (principal: Principal, repository: { id: string }) => Promise<Repository>
}

/** How long a shell may be open. */
export const shellTimeoutMs = 30 * 60_000
/** How long a user or a runner may make no request. Their requests wait for at most half of it. */
const userAwayMs = 20_000
const runnerAwayMs = 40_000
/** How long the runner may take to start a shell. */
const startTimeoutMs = 30_000
const recheckIntervalMs = 1000
const maxRechecked = 1000

export function createShellLife(dependencies: Dependencies): ShellLife {
  const { db, changes, clock, refresh, reopen } = dependencies
  const checked = new LRUCache<string, true>({ max: maxRechecked, ttl: recheckIntervalMs })

  async function end(
    shell: RunShellRow,
    { exitCode, reason }: ShellEnd,
    actor: Actor = { id: shell.actorId, username: shell.actorUsername },
  ): Promise<void> {
    const { id, repositoryId, runId, openedAt } = shell
    await db.transaction().execute(async (tx) => {
      const now = clock.now()
      const isEnded = await updateShell(tx, id, { endedAt: now, exitCode, endReason: reason })
      if (!isEnded) return
      const seconds = Math.round((now - openedAt) / 1000)
      await recordActions(tx, now, [
        {
          action: 'run_shell.closed',
          actor,
          repositoryId,
          data: { runId, shellId: id, seconds, exitCode, reason },
        },
      ])
    })
    changes.notify(id)
  }

  /** Why the user may not use the shell any more; undefined while access lasts. Asked at most once a second. */
  async function lossOfAccess(shell: RunShellRow): Promise<string | undefined> {
    if (checked.has(shell.id)) return undefined
    checked.set(shell.id, true)
    const { actorId: id, actorUsername: username, repositoryId } = shell
    const current = await refresh({ kind: 'token', id, username, permissions: new Set() })
    if (!current) return 'The token was deleted or has expired, or its user is disabled.'
    try {
      await reopen(current, { id: repositoryId })
      return undefined
    } catch (error) {
      if (error instanceof Problem) return error.message
      throw error
    }
  }

  async function endFor(shell: RunShellRow, reason: string | undefined): Promise<boolean> {
    if (reason === undefined) return false
    await end(shell, { exitCode: null, reason })
    return true
  }

  async function endIfOver(shell: RunShellRow): Promise<boolean> {
    return shell.endedAt !== null || (await endFor(shell, lossOf(shell, clock.now())))
  }

  async function endIfLost(shell: RunShellRow): Promise<boolean> {
    return (await endIfOver(shell)) || (await endFor(shell, await lossOfAccess(shell)))
  }

  return {
    end,
    endIfOver,
    endIfLost,

    async sweep() {
      for (const shell of await listOpenShells(db)) await endIfLost(shell)
    },

    async endWhere(applies, reason) {
      for (const shell of (await listOpenShells(db)).filter(applies))
        await end(shell, { exitCode: null, reason })
    },
  }
}

function lossOf(shell: RunShellRow, now: number): string | undefined {
  const { openedAt, startedAt, userSeenAt, runnerSeenAt } = shell
  if (now - openedAt > shellTimeoutMs)
    return `A shell is open for at most ${shellTimeoutMs / 60_000} minutes.`
  if (now - userSeenAt > userAwayMs) return 'Its user was away.'
  if (startedAt === null)
    return now - openedAt > startTimeoutMs ? 'The runner did not start the shell.' : undefined
  return now - runnerSeenAt > runnerAwayMs ? 'The runner cannot be reached.' : undefined
}
