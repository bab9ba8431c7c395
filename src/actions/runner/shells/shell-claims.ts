import { randomBytes } from 'node:crypto'
import { createBackoff } from '#base/concurrency/backoff.ts'
import { createTaskGroup } from '#base/concurrency/task-group.ts'
import type { Log } from '#base/log.ts'
import type {
  ShellClaim,
  ShellClaimBody,
  ShellEndBody,
  ShellStart,
} from '../../runner-api/shell-api.ts'
import type { FailedWorkspace } from '../../workflow-engine/run-state.ts'
import { describeError, requestBackoff, UnexpectedResponseError } from '../server-client.ts'
import { type RunnerRequest, serveShell } from './serve-shell.ts'

/** A workspace for shells. */
export type ShellWorkspace = FailedWorkspace & {
  id: string
  /** The name of its run in logs. */
  run: string
  /** The shell that runs in it. */
  shell: Promise<void> | undefined
}

type Options = {
  request: RunnerRequest
  log: Log
  /** The ids of the workspaces that the server knows. */
  listWorkspaces: () => string[]
  findWorkspace: (id: string) => ShellWorkspace | undefined
  /** Called when the server does not want a workspace any longer. */
  onGone: (id: string) => void
  onShellEnd: (workspace: ShellWorkspace) => void
}

const waitSeconds = 25
const graceMs = 10_000
const farewellTimeoutMs = 2000
const maxReported = 100

/** Claims shells from the server and runs them, for as long as there are workspaces. */
export function createShellClaims(options: Options) {
  const { request, log, listWorkspaces, findWorkspace, onGone, onShellEnd } = options
  const holder = randomBytes(24).toString('base64url')
  const shells = createTaskGroup()
  const stopping = new AbortController()
  const { signal } = stopping
  let removed: string[] = []
  let claiming: Promise<void> | undefined
  let reporting: Promise<void> | undefined

  async function claimAll(): Promise<void> {
    const backoff = createBackoff(requestBackoff)
    while (!signal.aborted && (listWorkspaces().length > 0 || removed.length > 0)) {
      try {
        await claim(listWorkspaces().length > 0 ? waitSeconds : 0, graceMs, signal)
        backoff.reset()
      } catch (error) {
        if (signal.aborted) return
        log.warn({ reason: describeError(error) }, 'shells not claimed; will retry')
        await backoff.pause(signal).catch(() => {})
      }
    }
  }

  /** Waits for a shell and starts it, and reports the workspaces that were removed. */
  async function claim(wait: number, graceMs: number, signal: AbortSignal): Promise<void> {
    const reported = removed.slice(0, maxReported)
    const body: ShellClaimBody = {
      holder,
      workspaces: listWorkspaces(),
      removed: reported,
      waitSeconds: wait,
    }
    const timeoutMs = wait * 1000 + graceMs
    const response = await request('/runner/shells/claim', body, { timeoutMs, signal })
    removed = removed.filter((id) => !reported.includes(id))
    if (response === undefined) return
    const { shell, gone } = toShellClaim(response)
    for (const id of gone) onGone(id)
    if (shell) serve(shell)
  }

  function serve(start: ShellStart): void {
    const workspace = findWorkspace(start.workspaceId)
    if (!workspace) {
      const reason = 'The workspace was removed.'
      void shells.add(reportEnd(start, { holder, exitCode: null, reason }))
      return
    }
    const context = { run: workspace.run, shell: start.id }
    // The processes of an earlier shell, which has ended for its user, may not have ended yet.
    const shell: Promise<void> = (workspace.shell ?? Promise.resolve()).then(async () => {
      log.info(context, 'shell started')
      const end = await serveShell({ start, failed: workspace, holder, request, signal })
      await reportEnd(start, { holder, ...end })
      log.info(context, 'shell ended')
      if (workspace.shell === shell) workspace.shell = undefined
      onShellEnd(workspace)
    })
    workspace.shell = shell
    void shells.add(shell)
  }

  // Tried once: the server notices the end of a shell whose runner sends no requests.
  async function reportEnd({ id }: ShellStart, body: ShellEndBody): Promise<void> {
    const limits = { timeoutMs: farewellTimeoutMs, signal: new AbortController().signal }
    await request(`/runner/shells/${id}/end`, body, limits).catch((error) =>
      log.warn({ shell: id, reason: describeError(error) }, 'end of a shell not reported'),
    )
  }

  return {
    /** The secret that authorizes requests about the workspaces of this runner. */
    holder,

    /** Begins to claim, when there is a workspace. */
    start(): void {
      claiming ??= claimAll().finally(() => {
        claiming = undefined
      })
    },

    /** Reports that a workspace was removed. */
    onRemoved(id: string): void {
      removed.push(id)
      // Not by the running claim, which may wait for long. If this fails, the next one does.
      reporting ??= Promise.resolve()
        .then(() => claim(0, graceMs, signal))
        .catch(() => {})
        .finally(() => {
          reporting = undefined
        })
    },

    /** Ends all shells; `removeWorkspaces` kills what is left of them. */
    async end(removeWorkspaces: () => Promise<void>): Promise<void> {
      stopping.abort(new Error('The runner is stopping.'))
      await Promise.all([removeWorkspaces(), shells.settled(), claiming, reporting])
      if (removed.length === 0) return
      // Otherwise the server would notice it only after a while.
      await claim(0, farewellTimeoutMs, new AbortController().signal).catch(() => {})
    },
  }
}

function toShellClaim(response: unknown): ShellClaim {
  const { shell, gone } = Object(response)
  const isClaim =
    Array.isArray(gone) && (shell === null || typeof Object(shell).workspaceId === 'string')
  if (!isClaim)
    throw new UnexpectedResponseError('Its response to a claim of a shell has another format.')
  return { shell, gone }
}
