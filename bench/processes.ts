import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type NetConnectOpts } from 'node:net'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { setTimeout as pause } from 'node:timers/promises'

type Options = {
  env?: NodeJS.ProcessEnv
  cwd?: string
  /** The chunks of standard input. */
  input?: Iterable<Buffer | string>
  signal?: AbortSignal
}

/** The result of a successful program. */
export type Finished = { output: string; elapsedMs: number }

/** Runs a program to its end; a signal kills its process group. Rejects when it fails. */
export async function run(command: string, args: string[], options: Options): Promise<Finished> {
  const { env, cwd, input = [], signal } = options
  signal?.throwIfAborted()
  const startedAt = performance.now()
  const child = spawn(command, args, { env, cwd, detached: true })
  const end = () => killGroup(child.pid, 'SIGKILL')
  signal?.addEventListener('abort', end)
  try {
    const [[exitCode], output, stderr] = await Promise.all([
      once(child, 'close'),
      text(child.stdout),
      text(child.stderr),
      // A program that fails stops reading; its exit code says why, the broken pipe does not.
      pipeline(Readable.from(input), child.stdin).catch(() => {}),
    ])
    signal?.throwIfAborted()
    if (exitCode === 0) return { output: output.trim(), elapsedMs: performance.now() - startedAt }
    throw new Error(`${command} ${args.join(' ')} ended with ${exitCode}:\n${stderr}`)
  } finally {
    signal?.removeEventListener('abort', end)
  }
}

/** Starts a program that runs, with its process group, until it is disposed. */
export function start([command = '', ...args]: string[], env: NodeJS.ProcessEnv) {
  const child = spawn(command, args, { env, stdio: ['ignore', 'ignore', 'pipe'], detached: true })
  const stderr = text(child.stderr)
  const ended = once(child, 'exit')
  const failed = ended.then(async ([exitCode]): Promise<never> => {
    throw new Error(`${command} ended with ${exitCode}:\n${await stderr}`)
  })
  // An exit is a failure only for callers that wait.
  failed.catch(() => {})
  return {
    pid: child.pid ?? 0,
    /** Rejects when the program ends. */
    failed,
    async [Symbol.asyncDispose]() {
      killGroup(child.pid, 'SIGTERM')
      await ended.catch(() => {})
      killGroup(child.pid, 'SIGKILL')
    },
  }
}

const startTimeoutMs = 5000
const pollIntervalMs = 20

/** Waits until a server listens at each of the addresses. */
export async function untilListening(
  addresses: NetConnectOpts[],
  signal: AbortSignal,
): Promise<void> {
  const deadline = performance.now() + startTimeoutMs
  for (const address of addresses) {
    while (!(await listens(address))) {
      const where = 'path' in address ? address.path : `port ${address.port}`
      if (performance.now() > deadline) throw new Error(`No server listens at ${where}.`)
      await pause(pollIntervalMs, undefined, { signal })
    }
  }
}

function listens(address: NetConnectOpts): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(address)
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
    socket.on('connect', () => socket.destroy())
  })
}

function killGroup(pid: number | undefined, signal: NodeJS.Signals): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch {
    // ESRCH: the group has no processes left.
  }
}
