import { Readable } from 'node:stream'
import { createBackoff } from '#base/concurrency/backoff.ts'
import type { ShellInput, ShellInputBody, ShellStart } from '../../runner-api/shell-api.ts'
import { shellPieceMaxBytes } from '../../runner-api/transfer-limits.ts'
import type { CommandEnd, Folders, WorkspaceCommand } from '../../sandbox/sandbox.ts'
import type { CommandSetting, FailedWorkspace } from '../../workflow-engine/run-state.ts'
import {
  describeError,
  isWorthRetrying,
  RefusedRequestError,
  requestBackoff,
  UnexpectedResponseError,
} from '../server-client.ts'

/** Sends a request as the runner: JSON, undefined for an empty response. */
export type RunnerRequest = (
  path: string,
  body: object,
  options: { timeoutMs: number; signal: AbortSignal },
) => Promise<unknown>

type Options = {
  start: ShellStart
  failed: FailedWorkspace
  /** The secret that authorizes the requests. */
  holder: string
  request: RunnerRequest
  /** Ends the shell. */
  signal: AbortSignal
}

/** How a shell ended; `reason` is a sentence, empty when it exited by itself. */
type ShellEnd = { exitCode: number | null; reason: string }

const waitSeconds = 10
/** While the shell does not read its input, only its end is waited for, briefly. */
const fullWaitSeconds = 1
const graceMs = 10_000
const outputTimeoutMs = 30_000
/** Without a response for this long, the server is lost, and the shell ends. */
const lostAfterMs = 30_000
const reasonMaxLength = 1000

/** Runs a shell in a workspace until it exits or is ended, passing its input and output. Never rejects. */
export async function serveShell({
  start,
  failed,
  holder,
  request,
  signal,
}: Options): Promise<ShellEnd> {
  const { workspace, setting } = failed
  const ending = new AbortController()
  const over = AbortSignal.any([signal, ending.signal])
  const send = createSend({ id: start.id, holder, request, signal: over })
  const stdin = new Readable({ read() {} })
  const following = followInput(stdin, send, over).catch((error) => ending.abort(error))
  try {
    const end = await workspace.run({
      ...shellCommand(start, { setting, inside: workspace.inside }),
      stdin,
      timeoutMs: start.timeoutMs,
      signal: over,
      onOutput: createOutput(send, over),
    })
    return toShellEnd(end, over)
  } catch (error) {
    return { exitCode: null, reason: describeError(over.aborted ? over.reason : error) }
  } finally {
    ending.abort(new Error('The shell has ended.'))
    await following
    stdin.destroy()
  }
}

type Send = (action: string, body: object, timeoutMs: number) => Promise<unknown>

/** Sends requests about a shell, with retries until the server counts as lost. */
function createSend({
  id,
  holder,
  request,
  signal,
}: Omit<Options, 'start' | 'failed'> & { id: string }): Send {
  return async (action, body, timeoutMs) => {
    const backoff = createBackoff(requestBackoff)
    const deadline = performance.now() + lostAfterMs
    for (;;) {
      signal.throwIfAborted()
      try {
        const path = `/runner/shells/${encodeURIComponent(id)}/${action}`
        return await request(path, { holder, ...body }, { timeoutMs, signal })
      } catch (error) {
        signal.throwIfAborted()
        const isOfProxy = error instanceof RefusedRequestError && !error.isOfService
        if (!(isOfProxy || isWorthRetrying(error)) || performance.now() > deadline) throw error
        await backoff.pause(signal, error instanceof RefusedRequestError ? error.retryAfterMs : 0)
      }
    }
  }
}

/** Passes input to a shell until the server ends it: then it rejects with the reason. */
async function followInput(stdin: Readable, send: Send, over: AbortSignal): Promise<never> {
  let after = 0
  let isClosed = false
  for (;;) {
    over.throwIfAborted()
    const isFull = stdin.readableLength >= shellPieceMaxBytes
    const wantsInput = !isClosed && !isFull
    const wait = isFull ? fullWaitSeconds : waitSeconds
    const body: Omit<ShellInputBody, 'holder'> = { after, wantsInput, waitSeconds: wait }
    const input = toInput(await send('input', body, wait * 1000 + graceMs))
    if (input.end !== null) throw new Error(input.end)
    const bytes = Buffer.from(input.data, 'base64')
    if (bytes.length > 0) stdin.push(bytes)
    after = input.next
    if (input.isClosed && !isClosed) stdin.push(null)
    isClosed ||= input.isClosed
  }
}

/** Passes output of a shell to the server, in order; discards it when the shell is being ended. */
function createOutput(send: Send, over: AbortSignal): (bytes: Buffer) => Promise<void> {
  let sent = 0

  return async (bytes) => {
    const end = sent + bytes.length
    while (sent < end && !over.aborted) {
      const piece = bytes.subarray(bytes.length - (end - sent)).subarray(0, shellPieceMaxBytes)
      const body = { start: sent, data: piece.toString('base64') }
      const response = await send('output', body, outputTimeoutMs).catch((error) => {
        if (!over.aborted) throw error
      })
      if (response === undefined) return
      const { next } = Object(response)
      if (!Number.isSafeInteger(next) || next < sent || next > sent + piece.length)
        throw new UnexpectedResponseError('The response to output of a shell has another format.')
      sent = next
    }
  }
}

function toInput(response: unknown): ShellInput {
  const { data, next, isClosed, end } = Object(response)
  const isInput =
    typeof data === 'string' &&
    Number.isSafeInteger(next) &&
    typeof isClosed === 'boolean' &&
    (end === null || typeof end === 'string')
  if (!isInput)
    throw new UnexpectedResponseError('The response with input of a shell has another format.')
  return { data, next, isClosed, end }
}

function toShellEnd({ exitCode, reason, detail }: CommandEnd, over: AbortSignal): ShellEnd {
  if (reason === 'exited') return { exitCode, reason: '' }
  const why =
    reason === 'cancelled'
      ? describeError(over.reason)
      : detail || `The shell was killed: ${reason}.`
  return { exitCode: null, reason: why.slice(0, reasonMaxLength) }
}

// Start-up files are not read, as in steps. The directory of the step may be gone.
const shell = 'command -v bash >/dev/null && exec bash --noprofile --norc; exec sh'
const enter = 'cd "$1" 2>/dev/null'

// script(1) makes the terminal, and runs its command with $SHELL, which the job may have set.
const onTerminal = `${enter}
command -v script >/dev/null || {
  echo 'The runner lacks script(1) of util-linux, so there is no terminal; commands can be piped to svc runs shell.'
  exit 127
}
exec env SHELL=/bin/sh script -qefc "$2" /dev/null`

/** The command of a shell with the variables, the directory and the network of a step. */
function shellCommand(
  { columns, rows, term }: ShellStart,
  { setting, inside }: { setting: CommandSetting; inside: Folders },
): Pick<WorkspaceCommand, 'command' | 'env' | 'cwd' | 'network'> {
  const { env, cwd, network } = setting
  const hasTerminal = columns !== null && rows !== null
  // Standard input is no terminal for script(1), which would create one without a size and without echo.
  const inner = `stty echo rows ${Number(rows)} cols ${Number(columns)}; unset SHELL; ${shell}`
  return {
    command: hasTerminal
      ? ['/bin/sh', '-c', onTerminal, 'sh', cwd, inner]
      : ['/bin/sh', '-c', `${enter}; ${shell}`, 'sh', cwd],
    env: hasTerminal ? { ...env, TERM: term, PS1: '\\w\\$ ' } : env,
    cwd: inside.workspace,
    // The log of the step, to which its connections were written, has ended.
    ...(typeof network === 'object' && { network: { ...network, log: async () => {} } }),
    ...(network === 'none' && { network }),
  }
}
