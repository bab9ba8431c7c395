import { setTimeout as sleep } from 'node:timers/promises'
import { printable } from '#base/format.ts'
import type { Json } from '#base/json.ts'
import { orAborted } from '#base/timeouts.ts'
import { type ApiRequest, type HttpClient, notSvc, path } from '../servers/http-client.ts'
import { CommandError, clientExitCodes, UsageError } from '../terminal/command-errors.ts'
import { at, textAt } from '../terminal/display.ts'
import type { Keyboard } from '../terminal/terminal.ts'
import type { ServerWork } from './operation.ts'

const waitSeconds = 10
/** For requests of one kind: what arrives meanwhile shares the next one. */
const minIntervalMs = 25
/** The server ends a shell after 20 seconds without a request. */
const retriedForMs = 15_000
const retryIntervalMs = 500
const pieceMaxBytes = 64 * 1024
const interruptedCode = 130

/** `svc runs shell`: the exit code is that of the shell. */
export async function runShell({
  client,
  request,
  terminal,
  environment,
  json,
}: ServerWork): Promise<number> {
  if (json) throw new UsageError('svc runs shell prints no JSON.')
  using keyboard = terminal.keyboard()
  const { size } = keyboard
  const opening = request({ terminal: size && { ...size, term: toTerm(environment.TERM) } })
  const opened = await client.json(opening)
  const shell = opening.path + path`/${textAt(opened, 'id')}`
  if (size) {
    terminal.err(
      `Shell in the job ${printable(textAt(opened, 'job'))}. Secrets are not masked. Ctrl-D or exit ends it.\n`,
    )
  }
  const ending = new AbortController()
  const { interrupted } = keyboard
  const over = AbortSignal.any([ending.signal, interrupted])
  const sending = sendInput(client, shell, keyboard, over).catch((error) => ending.abort(error))
  try {
    const end = await followOutput(client, shell, { write: terminal.write, signal: over })
    const reason = textAt(end, 'reason')
    const code = at(end, 'exitCode')
    if (reason !== '')
      throw new CommandError('failure', `The shell has ended: ${printable(reason)}`)
    return typeof code === 'number' ? code : clientExitCodes.failure
  } catch (error) {
    await client.json({ method: 'DELETE', path: shell }).catch(() => {})
    if (interrupted.aborted) return interruptedCode
    throw over.aborted ? over.reason : error
  } finally {
    ending.abort(new Error('The shell has ended.'))
    keyboard[Symbol.dispose]()
    await sending
  }
}

/** Sends standard input until its end, in pieces; each is repeated until the server has it. */
async function sendInput(
  client: HttpClient,
  shell: string,
  keyboard: Keyboard,
  signal: AbortSignal,
): Promise<void> {
  let start = 0
  const post = async (data: Buffer, end: boolean) => {
    const request = {
      method: 'POST',
      path: `${shell}/input`,
      body: { start, data: data.toString('base64'), end },
      waitMs: waitSeconds * 1000,
    }
    const next = at(await withRetries(client, request, signal), 'next')
    if (typeof next !== 'number' || next < start || next > start + data.length)
      throw notSvc(client.url)
    const sent = next - start
    start = next
    return sent
  }
  try {
    for await (const bytes of keyboard.read()) {
      for (let sent = 0; sent < bytes.length; ) {
        if (signal.aborted) return
        const [piece] = await Promise.all([
          post(bytes.subarray(sent, sent + pieceMaxBytes), false),
          sleep(minIntervalMs),
        ])
        sent += piece
      }
    }
    if (!signal.aborted) await post(Buffer.alloc(0), true)
  } catch (error) {
    // Standard input was closed because the shell has ended.
    if (!signal.aborted) throw error
  }
}

type Output = { write: (bytes: Uint8Array) => Promise<void>; signal: AbortSignal }

/** Writes the output of a shell until it has ended; returns how. */
async function followOutput(
  client: HttpClient,
  shell: string,
  { write, signal }: Output,
): Promise<Json> {
  for (let after = 0; ; ) {
    const request = {
      method: 'GET',
      path: `${shell}/output`,
      query: { after, wait: waitSeconds },
      waitMs: waitSeconds * 1000,
    }
    const [output] = await Promise.all([withRetries(client, request, signal), sleep(minIntervalMs)])
    const next = at(output, 'next')
    if (typeof next !== 'number') throw notSvc(client.url)
    const bytes = Buffer.from(textAt(output, 'data'), 'base64')
    if (bytes.length > 0) await write(bytes)
    after = next
    const end = at(output, 'end')
    if (end !== null) return end
  }
}

/** Sends a request again while the server cannot be reached. Rejects when the signal is aborted. */
async function withRetries(
  client: HttpClient,
  request: ApiRequest,
  signal: AbortSignal,
): Promise<Json> {
  const deadline = performance.now() + retriedForMs
  for (;;) {
    try {
      signal.throwIfAborted()
      return await orAborted(client.json(request), signal)
    } catch (error) {
      const isUnreachable =
        error instanceof CommandError && error.exitCode === clientExitCodes.unreachable
      if (!isUnreachable || signal.aborted || performance.now() > deadline) throw error
      await sleep(retryIntervalMs)
    }
  }
}

/** The value of TERM that the service accepts. */
function toTerm(term = ''): string {
  return /^[A-Za-z0-9._+-]{1,64}$/.test(term) ? term : 'xterm'
}
