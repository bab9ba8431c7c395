import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import type { Notifier } from '#base/concurrency/notifier.ts'
import { isId, newId } from '#base/ids.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { Db, FailedWorkspaceRow, RunShellRow } from '#database/schema.ts'
import { recordActions } from '#events/audit/record.ts'
import { invalid } from '#http/validation.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { Vault } from '#secrets/vault/vault.ts'
import { listFailedWorkspaces } from './failed-workspace-store.ts'
import { findOpenShell, findShell, insertShell, updateShell } from './run-shell-store.ts'
import { type ShellLife, shellTimeoutMs } from './shell-life.ts'
import { type ShellStreams, shellNotFound, type Waiting } from './shell-streams.ts'

/** A run in whose workspaces shells can be opened. */
export type RunOfShells = {
  id: string
  number: number
  attempt: number
  status: string
  conclusion: string | null
}

/** The terminal of a shell; sizes in characters. */
type WantedShell = { job?: string | undefined; terminal?: Terminal | undefined }
type Terminal = { columns: number; rows: number; term: string }

/** Output after an offset. `end` is set when the shell has ended and this is its last output. */
type ReadOutput = {
  bytes: Buffer
  next: number
  end: { exitCode: number | null; reason: string } | null
}

/** Shells for their users. The token that opened a shell is the only one that can use it. */
export type UserShells = {
  /**
   * Opens a shell in the workspace of a failed job. Throws `run_not_completed`, `workspace_removed`,
   * `runner_unreachable`, `encryption_key_missing`, `shell_open`, and `invalid_request` when the run has several of them.
   */
  open: (
    principal: Principal,
    repository: Repository,
    run: RunOfShells,
    wanted: WantedShell,
  ) => Promise<{ id: string; job: string; expiresAt: number }>
  readOutput: (of: ShellOfUser, after: number, waiting: Waiting) => Promise<ReadOutput>
  /** Appends input, and returns the next offset; `isEnd` says that no more comes. */
  writeInput: (
    of: ShellOfUser,
    input: { start: number; bytes: Buffer; isEnd: boolean },
    waiting: Waiting,
  ) => Promise<number>
  close: (of: ShellOfUser) => Promise<void>
}

/** A shell as a request names it. */
type ShellOfUser = { principal: Principal; repository: Repository; runId: string; id: string }

type Dependencies = {
  db: Database
  changes: Notifier
  clock: Clock
  life: ShellLife
  streams: ShellStreams
  vault: () => Promise<Vault>
}

/** A runner that keeps a workspace says so more often. */
export const workspaceSeenMs = 60_000
const userSeenIntervalMs = 3000
const shownJobs = 20

export function createUserShells(dependencies: Dependencies): UserShells {
  const { db, changes, clock, life, streams, vault } = dependencies

  /** Throws `shell_not_found`, also to everyone but the token that opened it. */
  async function find({ principal, repository, runId, id }: ShellOfUser): Promise<RunShellRow> {
    const shell = isId(id) ? await findShell(db, id) : undefined
    const isOwn =
      shell?.repositoryId === repository.id &&
      shell.runId === runId &&
      shell.actorId === principal.id
    if (!isOwn) throw shellNotFound(id)
    return shell
  }

  async function insert(tx: Db, shell: RunShellRow, actor: Principal, job: string): Promise<void> {
    if (!(await insertShell(tx, shell))) throw await shellOpen(tx, shell.runId)
    const { id: shellId, runId, repositoryId, openedAt } = shell
    const data = { runId, shellId, job }
    await recordActions(tx, openedAt, [{ action: 'run_shell.opened', actor, repositoryId, data }])
  }

  return {
    async open(principal, repository, run, { job, terminal }) {
      const now = clock.now()
      const workspace = chooseWorkspace(run, await listFailedWorkspaces(db, toAttempt(run)), job)
      if (now - workspace.seenAt > workspaceSeenMs) throw runnerUnreachable(workspace)
      if ((await vault()).keyIds.length === 0) throw keyMissing()
      const open = await findOpenShell(db, run.id)
      if (open) await life.endIfOver(open)
      const shell = toRow({ run, workspace, principal, repository, terminal, now })
      await db.transaction().execute((tx) => insert(tx, shell, principal, workspace.job))
      changes.notify(workspace.holder)
      return { id: shell.id, job: workspace.job, expiresAt: now + shellTimeoutMs }
    },

    async readOutput(of, after, waiting) {
      const { userSeenAt } = await find(of)
      const now = clock.now()
      if (now - userSeenAt > userSeenIntervalMs) await updateShell(db, of.id, { userSeenAt: now })
      const isOver = (shell: RunShellRow) => life.endIfOver(shell)
      const { bytes, next, shell } = await streams.read(of.id, 'output', after, {
        ...waiting,
        isOver,
      })
      const { endedAt, exitCode, endReason: reason } = shell
      const isLast = endedAt !== null && next >= shell.outputSize
      return { bytes, next, end: isLast ? { exitCode, reason } : null }
    },

    async writeInput(of, { start, bytes, isEnd }, waiting) {
      await find(of)
      const next = await streams.append(of.id, 'input', { start, bytes }, waiting)
      if (isEnd && next === start + bytes.length) {
        await updateShell(db, of.id, { isInputClosed: 1 })
        changes.notify(of.id)
      }
      return next
    },

    async close(of) {
      const end = { exitCode: null, reason: 'Its user closed it.' }
      await life.end(await find(of), end, of.principal)
    },
  }
}

type NewShell = {
  run: RunOfShells
  workspace: FailedWorkspaceRow
  principal: Principal
  repository: Repository
  terminal: Terminal | undefined
  now: number
}

function toRow({ run, workspace, principal, repository, terminal, now }: NewShell): RunShellRow {
  return {
    id: newId(now),
    runId: run.id,
    repositoryId: repository.id,
    workspaceId: workspace.id,
    holder: workspace.holder,
    actorId: principal.id,
    actorUsername: principal.username,
    terminalColumns: terminal?.columns ?? null,
    terminalRows: terminal?.rows ?? null,
    term: terminal?.term ?? 'dumb',
    openedAt: now,
    startedAt: null,
    userSeenAt: now,
    runnerSeenAt: now,
    inputSize: 0,
    inputRead: 0,
    outputSize: 0,
    outputRead: 0,
    isInputClosed: 0,
    endedAt: null,
    exitCode: null,
    endReason: '',
  }
}

function toAttempt({ id, attempt }: RunOfShells) {
  return { runId: id, attempt }
}

/** The workspace to open a shell in. Throws a Problem that says why there is none. */
function chooseWorkspace(
  run: RunOfShells,
  all: readonly FailedWorkspaceRow[],
  job: string | undefined,
): FailedWorkspaceRow {
  if (run.status !== 'completed') {
    throw new Problem(
      'run_not_completed',
      `Run ${run.number} has not completed; a shell opens in the workspace of a failed job afterwards.`,
    )
  }
  const isNamed = (one: FailedWorkspaceRow) => job === undefined || one.job === job
  const kept = all.filter(({ removedAt }) => removedAt === null)
  const [first, ...others] = kept.filter(isNamed)
  if (first && others.length === 0) return first
  const removed = all.filter(isNamed).at(-1)
  if (!first && (removed || kept.length === 0)) throw workspaceRemoved(run, removed)
  const names = [...new Set(kept.map((one) => `"${one.job}"`))].slice(0, shownJobs).join(', ')
  const what = first ? 'must name one job' : 'names no job whose workspace is kept'
  const detail = `${what}: run ${run.number} has the workspaces of ${names}.`
  throw invalid([{ pointer: '/job', detail }])
}

function workspaceRemoved(
  { number, conclusion }: RunOfShells,
  removed: FailedWorkspaceRow | undefined,
): Problem {
  if (removed?.removedAt) {
    const at = new Date(removed.removedAt).toISOString()
    return new Problem(
      'workspace_removed',
      `The workspace of run ${number} was removed at ${at}: its runner keeps those of failed jobs for ${removed.keptMs / 1000} seconds (SVC_FAILED_WORKSPACE_SECONDS), unless it ends or needs the space.`,
    )
  }
  const isFailed = conclusion === 'failure' || conclusion === 'timed_out'
  return new Problem(
    'workspace_removed',
    isFailed
      ? `Run ${number} has no workspace: its runner keeps that of a failed job only if SVC_FAILED_WORKSPACE_SECONDS is not 0, a command of the job has failed, and there is space.`
      : `Run ${number} ended with ${conclusion}; only the workspaces of failed jobs are kept.`,
  )
}

function keyMissing(): Problem {
  return new Problem(
    'encryption_key_missing',
    'The server has no key to encrypt what a shell shows. Its administrator sets SVC_ENCRYPTION_KEY, or puts ' +
      'encryption.key back into the data directory, and starts it again.',
  )
}

function runnerUnreachable({ seenAt }: FailedWorkspaceRow): Problem {
  return new Problem(
    'runner_unreachable',
    `The runner that has the workspace was last seen at ${new Date(seenAt).toISOString()}; it does not run, or cannot reach the service.`,
  )
}

async function shellOpen(tx: Db, runId: string): Promise<Problem> {
  const open = await findOpenShell(tx, runId)
  const who = open ? ` by ${open.actorUsername}` : ''
  return new Problem('shell_open', `A shell of this run is open${who}; a run has one at a time.`)
}
