import { spawn } from 'node:child_process'
import type { Duplex, Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'

/** A process that waits to be told which program to become: see `toOrder`. */
export type PreforkedProcess = {
  pid: number | undefined
  stdin: Writable
  stdout: Readable
  /** Descriptor 3. The order comes by it; what follows is for the program. */
  channel: Duplex
  /** Has what is written to standard error told to somebody, from then on. */
  listen: (take: (text: string) => void) => void
  /** Fulfilled when all is written to standard error, too. */
  ended: Promise<ExitStatus>
}

/** How a process ended: with an exit code, or by a signal. */
export type ExitStatus = { exitCode: number | null; signal: NodeJS.Signals | null }

/** What a seat becomes. */
export type ProcessOrder = {
  command: readonly string[]
  /** Added to those that it has. */
  variables: Record<string, string>
  /** What the process may take: setrlimit(2). */
  limits?: Partial<Limits> | undefined
  /** Whether it gets only what time of processors and disks nobody else wants. */
  isIdle?: boolean | undefined
}

export type Limits = {
  /** Bytes of memory: RLIMIT_DATA. */
  memoryMaxBytes: number
  /** Bytes of each file that is written: RLIMIT_FSIZE. */
  fileMaxBytes: number
  /** Seconds of processor time, those of all threads together: RLIMIT_CPU. Each child has as many of its own. */
  cpuMaxSeconds: number
}

/** Where seats come from. */
export type Preforker = {
  take: () => Promise<PreforkedProcess>
  /** Has some be there before they are wanted. */
  prepare: () => void
}

type Options = {
  variables: Record<string, string>
  /** A file's descriptor or the output of another process, which is standard input then; nobody else can read it. */
  reads?: number | Readable | undefined
}

const script = fileURLToPath(new URL('prefork.sh', import.meta.url))

/** Starts a seat, in a process group of its own. Throws when too many files are open. */
export function openPreforkedProcess({ variables, reads }: Options): PreforkedProcess {
  const child = spawn('/bin/sh', [script], {
    env: variables,
    stdio: [reads ?? 'pipe', 'pipe', 'pipe', 'pipe'],
    cwd: '/',
    detached: true,
  })
  if (!child.stdio) {
    // Which is told a moment later; without this line it would also end the program.
    child.on('error', () => {})
    throw new Error('No process could be started: too many files are open.')
  }
  // With a second reader, who writes would not learn of the first one's end.
  if (typeof reads === 'object') reads.destroy()
  // Four pipes were asked for, so they are there; Node makes those beyond the third sockets.
  const [stdin, stdout, stderr, channel] = child.stdio as unknown as [
    Writable,
    Readable,
    Readable,
    Duplex,
  ]
  stderr.setEncoding('utf8')
  const ended = new Promise<ExitStatus>((resolve, reject) => {
    const said = new Promise((close) => stderr.once('close', close))
    child.once('error', reject)
    child.once('exit', (exitCode, signal) => said.then(() => resolve({ exitCode, signal })))
  })
  // Whoever awaits it learns of a failure; without this line it would also end the program.
  ended.catch(() => {})
  return {
    pid: child.pid,
    stdin,
    stdout,
    channel,
    listen: (take) => void stderr.on('data', take),
    ended,
  }
}

/** What a seat is told by its channel, to become a program. */
export function toOrder({ command, variables, limits, isIdle }: ProcessOrder): string {
  const { memoryMaxBytes, fileMaxBytes, cpuMaxSeconds } = limits ?? {}
  const steps = [
    ...(memoryMaxBytes === undefined ? [] : [step('memory', Math.floor(memoryMaxBytes / 1024))]),
    // The shell counts files in blocks of 512 bytes: POSIX, ulimit.
    ...(fileMaxBytes === undefined ? [] : [step('file', Math.ceil(fileMaxBytes / 512))]),
    ...(cpuMaxSeconds === undefined ? [] : [step('cpu', Math.ceil(cpuMaxSeconds))]),
    ...(isIdle ? [step('nice', 19)] : []),
    ...Object.entries(variables).map(([name, value]) => step('variable', `${name}=${value}`)),
    ...command.map((word) => step('word', word)),
  ]
  return `${steps.join('')}go\n`
}

function step(kind: string, value: string | number): string {
  const lines = String(value).split('\n')
  if (lines.some((line) => line.includes('\0'))) throw new TypeError('A program is told no NUL.')
  const parts = lines.slice(0, -1).map((line) => `part\n${line}\n`)
  return `${parts.join('')}${kind}\n${lines.at(-1)}\n`
}

/** Seats that are started here, when they are wanted. */
export function preforkHere(variables: Record<string, string>): Preforker {
  return { take: async () => openPreforkedProcess({ variables }), prepare() {} }
}
