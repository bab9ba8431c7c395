import { once } from 'node:events'
import { closeSync, constants, fchownSync, openSync, readSync, statSync } from 'node:fs'
import type { Duplex } from 'node:stream'
import { launch } from './launch.ts'
import type { SandboxTools } from './tools.ts'

/**
 * An anonymous pipe, held open. Unlike a named pipe it has no path that /proc/self/fd could show to a step, and unlike
 * a socket it can be opened again as /dev/stdout, as shell scripts do.
 */
export type StepPipe = Disposable & {
  /** Opens the end from which this process reads, without waiting; returns its descriptor. */
  openReader: () => number
  /** Opens the end from which a step reads. */
  openInput: () => number
  /** Opens the end to which a step writes. */
  openOutput: () => number
  /** Discards what a step before has left in it. */
  drain: () => void
}

/** Two pipes for the steps of one job: what they read, and what they write. */
export type StepPipes = Disposable & { input: StepPipe; output: StepPipe }

// Node has no pipe(2). A shell opens two for reading, says its process id on descriptor 3, and waits there until they
// are opened here. Dash, busybox and bash since 5.1 make pipes of short here-documents, which takes one process; in
// any shell a pipeline does, which takes three.
const waiting = 'echo $$ >&3; read -r _ <&3'
const scripts = [
  `exec 4<<A 5<<B\nA\nB\n${waiting}`,
  `: | { exec 4<&0; : | exec "$0" -c 'exec 5<&0; ${waiting}'; }`,
]
const shellDescriptors = [4, 5]

/** Makes the pipes of a job. They belong to `user`, who may open them again, if there is one. */
export async function makePipes(
  tools: Pick<SandboxTools, 'sh'>,
  user: number | undefined,
): Promise<StepPipes> {
  for (const script of scripts) {
    const pipes = await pipesOfShell(tools, script, user)
    if (pipes) return pipes
  }
  throw new Error('The shell made no pipes for a job.')
}

/** The pipes that a shell opens by a script; undefined when they are something else. */
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
  // Four were asked for; Node makes those beyond the third sockets. There are none when too many files are open.
  const channel = child.stdio?.[3] as Duplex | undefined
  channel?.on('error', () => {})
  try {
    const pid = channel && (await Promise.race([firstLine(channel), ended]))
    if (!pid) throw new Error('The pipes of a job could not be made.')
    const opened: StepPipe[] = []
    try {
      const paths = shellDescriptors.map((number) => `/proc/${pid}/fd/${number}`)
      if (!paths.every((path) => statSync(path).isFIFO())) return undefined
      for (const path of paths) opened.push(toPipe(path, user))
    } catch (error) {
      for (const pipe of opened) pipe[Symbol.dispose]()
      throw error
    }
    // One for each number.
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

// As much as an unprivileged process may have in a pipe: pipe(7), pipe-max-size.
const pipeMaxBytes = 1_048_576
const pieceBytes = 65_536

function toPipe(path: string, user: number | undefined): StepPipe {
  const { O_RDONLY, O_WRONLY, O_NONBLOCK } = constants
  const held = openSync(path, O_RDONLY | O_NONBLOCK)
  let isOpen = true
  const again = (flags: number) => openSync(`/proc/self/fd/${held}`, flags)
  const pipe: StepPipe = {
    openReader: () => again(O_RDONLY | O_NONBLOCK),
    openInput: () => again(O_RDONLY),
    openOutput: () => again(O_WRONLY),
    drain: () => drain(held),
    [Symbol.dispose]() {
      // Once: the number may be another file's by now.
      if (isOpen) closeSync(held)
      isOpen = false
    },
  }
  try {
    if (user !== undefined) fchownSync(held, user, user)
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
      // EAGAIN: it is empty, and a writer still has it open.
      return
    }
  }
}
