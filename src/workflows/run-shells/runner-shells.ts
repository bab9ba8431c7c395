import type {
  FailedWorkspaceBody,
  ShellClaim,
  ShellClaimBody,
  ShellEndBody,
  ShellInput,
  ShellInputBody,
  ShellStart,
} from '#actions/runner-api/shell-api.ts'
import type { Clock } from '#base/clock.ts'
import type { Notifier } from '#base/concurrency/notifier.ts'
import { isId } from '#base/ids.ts'
import { hashToken } from '#base/token-string.ts'
import type { Database } from '#database/database.ts'
import type { RunShellRow } from '#database/schema.ts'
import {
  insertFailedWorkspace,
  listFailedWorkspaces,
  listHeld,
  markRemoved,
  touchFailedWorkspaces,
} from './failed-workspace-store.ts'
import { findShell, takeShell, updateShell } from './run-shell-store.ts'
import { type ShellLife, shellTimeoutMs } from './shell-life.ts'
import { type ShellStreams, shellNotFound, type Waiting } from './shell-streams.ts'

/** A run as its runner holds it. */
export type RunOfWorkspace = { id: string; repositoryId: string; attempt: number; runner: string }

/** Shells for the runners that keep their workspaces. */
export type RunnerShells = {
  /** Records a workspace that a runner keeps. */
  register: (run: RunOfWorkspace, workspace: FailedWorkspaceBody) => Promise<void>
  /** Waits for a shell to start, or a workspace that need not be kept; undefined when there was neither in time. */
  claim: (body: ShellClaimBody, waiting: Waiting) => Promise<ShellClaim | undefined>
  readInput: (id: string, body: ShellInputBody, waiting: Waiting) => Promise<ShellInput>
  writeOutput: (
    id: string,
    output: { holder: string; start: number; bytes: Buffer },
    waiting: Waiting,
  ) => Promise<number>
  end: (id: string, body: ShellEndBody) => Promise<void>
}

type Dependencies = {
  db: Database
  changes: Notifier
  clock: Clock
  life: ShellLife
  streams: ShellStreams
}

const seenIntervalMs = 10_000
/** Maximum number of workspaces of an attempt; runners keep far fewer. */
const maxWorkspaces = 100

export function createRunnerShells(dependencies: Dependencies): RunnerShells {
  const { db, changes, clock, life, streams } = dependencies

  /** Finds a shell of a runner. Throws `shell_not_found`. */
  async function find(id: string, holder: string): Promise<RunShellRow> {
    const shell = isId(id) ? await findShell(db, id) : undefined
    if (shell?.holder !== hashToken(holder)) throw shellNotFound(id)
    return shell
  }

  async function touch(holder: string): Promise<Set<string>> {
    const now = clock.now()
    const held = await listHeld(db, holder)
    const stale = held.filter(({ seenAt }) => now - seenAt > seenIntervalMs)
    await touchFailedWorkspaces(
      db,
      stale.map(({ id }) => id),
      now,
    )
    return new Set(held.map(({ id }) => id))
  }

  return {
    async register({ id: runId, repositoryId, attempt, runner }, { id, job, keptSeconds, holder }) {
      const known = await listFailedWorkspaces(db, { runId, attempt })
      if (known.length >= maxWorkspaces) return
      await insertFailedWorkspace(db, {
        id,
        runId,
        repositoryId,
        attempt,
        job,
        runner,
        holder: hashToken(holder),
        keptMs: keptSeconds * 1000,
        seenAt: clock.now(),
        removedAt: null,
      })
    },

    async claim({ holder: secret, workspaces, removed }, waiting) {
      const holder = hashToken(secret)
      await markRemoved(db, { holder, ids: removed, removedAt: clock.now() })
      return changes.until(holder, waiting, async () => {
        const held = await touch(holder)
        const gone = workspaces.filter((id) => !held.has(id))
        const taken = await takeShell(db, holder, clock.now())
        if (!taken && gone.length === 0) return undefined
        return { gone, shell: taken ? toStart(taken) : null }
      })
    },

    async readInput(id, { holder, after, wantsInput }, waiting) {
      const { runnerSeenAt } = await find(id, holder)
      const now = clock.now()
      if (now - runnerSeenAt > seenIntervalMs) await updateShell(db, id, { runnerSeenAt: now })
      if (!wantsInput) {
        await changes.until(
          id,
          waiting,
          async () => (await life.endIfLost(await find(id, holder))) || undefined,
        )
        return { data: '', next: after, isClosed: false, end: endOf(await find(id, holder)) }
      }
      const isOver = async (shell: RunShellRow) =>
        (await life.endIfLost(shell)) || isAtEnd(shell, after)
      const { bytes, next, shell } = await streams.read(id, 'input', after, { ...waiting, isOver })
      const isClosed = isAtEnd(shell, next)
      return { data: bytes.toString('base64'), next, isClosed, end: endOf(shell) }
    },

    async writeOutput(id, { holder, start, bytes }, waiting) {
      await find(id, holder)
      return streams.append(id, 'output', { start, bytes }, waiting)
    },

    async end(id, { holder, exitCode, reason }) {
      await life.end(await find(id, holder), { exitCode, reason })
    },
  }
}

function endOf({ endedAt, endReason }: RunShellRow): string | null {
  return endedAt === null ? null : endReason
}

function isAtEnd(shell: RunShellRow, offset: number): boolean {
  return shell.isInputClosed === 1 && shell.inputSize === offset
}

function toStart({
  id,
  workspaceId,
  terminalColumns,
  terminalRows,
  term,
}: RunShellRow): ShellStart {
  return {
    id,
    workspaceId,
    columns: terminalColumns,
    rows: terminalRows,
    term,
    timeoutMs: shellTimeoutMs,
  }
}
