import { once } from 'node:events'
import { closeSync, constants, fchownSync, openSync, readSync, statSync } from 'node:fs'
import type { Duplex } from 'node:stream'
import { launch } from './launch.ts'
import type { SandboxTools } from './tools.ts'

/**
 * An anonymous pipe that is kept open. Unlike a named pipe it has no path that /proc/self/fd would show to a step, and
 * unlike a socket it can be reopened as /dev/stdout, as shell scripts do.
 */
export type StepPipe = Disposable & {
  /** Opens the end from which this process reads, non-blocking; returns its descriptor. */
  openReader: () => number
  /** Opens the end from which a step reads. */
  openInput: () => number
  /** Opens the end to which a step writes. */
  openOutput: () => number
  /** Discards what an earlier step has left in it. */
  drain: () => void
}

/** The pipes for the steps of one job. */
export type StepPipes = Disposable & { input: StepPipe; output: StepPipe }

// Node has no pipe(2). A shell opens two for reading, writes its process id to descriptor 3, and waits until they have
// been opened here. Dash, busybox and bash since 5.1 use pipes for short here-documents, which takes one process; the
// pipeline works in any shell, but takes three.
const waiting = 'echo $$ >&3; read -r _ <&3'
const scripts = [
  `exec 4<<A 5<<B\nA\nB\n${waiting}`,
  `: | { exec 4<&0; : | exec "$0" -c 'exec 5<&0; ${waiting}'; }`,
]
const shellDescriptors = [4, 5]

/** Creates the pipes of a job. They belong to `user`, if given, who may reopen them. */
export async function makePipes(
  tools: Pick<SandboxTools, 'sh'>,
  user: number | undefined,
): Promise<StepPipes> {
  for (const script of scripts) {
    const pipes = await pipesOfShell(tools, script, user)
    if (pipes) return pipes
  }
  throw new Error('The shell created no pipes for the job.')
}

/** The pipes that a script opens in a shell; undefined when this shell uses something else. */
async function pipesOfShell(
  tools: Pick<SandboxTools, 'sh'>,
  script: string,
  user: number | undefined,
): Promise<StepPipes | undefined> {
  const child = launch({
    command: [tools.sh, '-c', script, tools.sh],
    env: {},
    cwd: '/',
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
  })
  const ended = new Promise<void>((resolve) => {
    child.once('exit', () => resolve())
    child.once('error', () => resolve())
  })
  // A socket, as `stdio` requests; there is none when too many files are open.
  const channel = child.stdio?.[3] as Duplex | undefined
  channel?.on('error', () => {})
  try {
    const pid = channel && (await Promise.race([firstLine(channel), ended]))
    if (!pid) throw new Error('The pipes of the job could not be created.')
    const opened: StepPipe[] = []
    try {
      const paths = shellDescriptors.map((number) => `/proc/${pid}/fd/${number}`)
      if (!paths.every((path) => statSync(path).isFIFO())) return undefined
      for (const path of paths) opened.push(toPipe(path, user))
    } catch (error) {
      for (const pipe of opened) pipe[Symbol.dispose]()
      throw error
    }
    // One for each of shellDescriptors.
    const [input, output] = opened as [StepPipe, StepPipe]
    return {
      input,
      output,
      [Symbol.dispose]() {
        for (const pipe of opened) pipe[Symbol.dispose]()
      },
    }
  } finally {
    channel?.destroy()
    await ended
  }
}

async function firstLine(channel: Duplex): Promise<string> {
  const [bytes] = await once(channel, 'data')
  return String(bytes).trim()
}

// The maximum capacity of a pipe for an unprivileged process: pipe(7), pipe-max-size.
const pipeMaxBytes = 1_048_576
const pieceBytes = 65_536

function toPipe(path: string, user: number | undefined): StepPipe {
  const { O_RDONLY, O_WRONLY, O_NONBLOCK } = constants
  const descriptor = openSync(path, O_RDONLY | O_NONBLOCK)
  let isOpen = true
  const reopen = (flags: number) => openSync(`/proc/self/fd/${descriptor}`, flags)
  const pipe: StepPipe = {
    openReader: () => reopen(O_RDONLY | O_NONBLOCK),
    openInput: () => reopen(O_RDONLY),
    openOutput: () => reopen(O_WRONLY),
    drain: () => drain(descriptor),
    [Symbol.dispose]() {
      // Only once: the number may have been reused.
      if (isOpen) closeSync(descriptor)
      isOpen = false
    },
  }
  try {
    if (user !== undefined) fchownSync(descriptor, user, user)
    return pipe
  } catch (error) {
    pipe[Symbol.dispose]()
    throw error
  }
}

function drain(descriptor: number): void {
  const piece = Buffer.allocUnsafe(pieceBytes)
  for (let left = pipeMaxBytes; left > 0; ) {
    try {
      const length = readSync(descriptor, piece)
      if (length === 0) return
      left -= length
    } catch {
      // EAGAIN: empty, but open for writing elsewhere.
      return
    }
  }
}
