import { isUtf8 } from 'node:buffer'
import { spawn } from 'node:child_process'
import type { Duplex, Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'

/** A shell that waits for an order with the program to execute: see `toOrder`. */
export type PreforkedProcess = {
  pid: number | undefined
  stdin: Writable
  stdout: Readable
  /** Descriptor 3. It carries the order first, then the program's own data. */
  channel: Duplex
  /** Starts passing standard error to a listener. */
  listen: (listener: (text: string) => void) => void
  /** Fulfilled when the process has ended and standard error is closed. */
  ended: Promise<ExitStatus>
}

/** The end of a process: an exit code or a signal. */
export type ExitStatus = { exitCode: number | null; signal: NodeJS.Signals | null }

/** The program that a preforked process executes. */
export type ProcessOrder = {
  command: readonly string[]
  /** Environment variables, added to those of the preforked process. */
  variables: Record<string, string>
  /** Resource limits: setrlimit(2). */
  limits?: Partial<Limits> | undefined
  /** Whether it runs at idle priority, for both processor and disk. */
  isIdle?: boolean | undefined
}

export type Limits = {
  /** Memory of each process: RLIMIT_DATA. */
  memoryMaxBytes: number
  /** Size of each file written: RLIMIT_FSIZE. */
  fileMaxBytes: number
  /** Processor time of all threads together: RLIMIT_CPU. Child processes have the same limit, counted separately. */
  cpuMaxSeconds: number
}

/** A source of preforked processes. */
export type Preforker = {
  take: () => Promise<PreforkedProcess>
  /** Starts some processes in advance. */
  prepare: () => void
}

type Options = {
  variables: Record<string, string>
  /** Standard input: a file descriptor, or another process's output, which is then closed here. */
  reads?: number | Readable | undefined
}

const script = fileURLToPath(new URL('prefork.sh', import.meta.url))

/** Starts a preforked process in its own process group. Throws when too many files are open. */
export function openPreforkedProcess({ variables, reads }: Options): PreforkedProcess {
  const child = spawn('/bin/sh', [script], {
    env: variables,
    stdio: [reads ?? 'pipe', 'pipe', 'pipe', 'pipe'],
    cwd: '/',
    detached: true,
  })
  if (!child.stdio) {
    // Node emits the error later; without a listener it would end the program.
    child.on('error', () => {})
    throw new Error('Cannot start a process: too many open files.')
  }
  // With a second reader, the writer would not notice the end of the first one.
  if (typeof reads === 'object') reads.destroy()
  // All four pipes exist, as requested; Node makes those beyond the third sockets.
  const [stdin, stdout, stderr, channel] = child.stdio as unknown as [
    Writable,
    Readable,
    Readable,
    Duplex,
  ]
  stderr.setEncoding('utf8')
  const ended = new Promise<ExitStatus>((resolve, reject) => {
    const closed = new Promise((close) => stderr.once('close', close))
    child.once('error', reject)
    child.once('exit', (exitCode, signal) => closed.then(() => resolve({ exitCode, signal })))
  })
  // Without a handler, a failure that is not awaited yet would end the program.
  ended.catch(() => {})
  return {
    pid: child.pid,
    stdin,
    stdout,
    channel,
    listen: (listener) => void stderr.on('data', listener),
    ended,
  }
}

/** Encodes an order for prefork.sh, to be written to the channel. */
export function toOrder({ command, variables, limits, isIdle }: ProcessOrder): string | Buffer {
  const { memoryMaxBytes, fileMaxBytes, cpuMaxSeconds } = limits ?? {}
  const steps = [
    ...(memoryMaxBytes === undefined ? [] : [step('memory', Math.floor(memoryMaxBytes / 1024))]),
    // `ulimit -f` counts blocks of 512 bytes: POSIX, ulimit.
    ...(fileMaxBytes === undefined ? [] : [step('file', Math.ceil(fileMaxBytes / 512))]),
    ...(cpuMaxSeconds === undefined ? [] : [step('cpu', Math.ceil(cpuMaxSeconds))]),
    ...(isIdle ? [step('nice', 19)] : []),
    ...Object.entries(variables).map(([name, value]) => step('variable', `${name}=${value}`)),
    ...command.map((word) => step('word', word)),
  ]
  return toBytes(`${steps.join('')}go\n`)
}

/** A word with these bytes (latin1). Bytes that are not UTF-8 become lone surrogates, which `toOrder` turns back. */
export function toWord(raw: string): string {
  const bytes = Buffer.from(raw, 'latin1')
  if (isUtf8(bytes)) return bytes.toString('utf8')
  return raw.replace(/[\x80-\xff]/g, (byte) =>
    String.fromCharCode(firstSurrogate + byte.charCodeAt(0)),
  )
}

const firstSurrogate = 0xdc00

function toBytes(order: string): string | Buffer {
  if (order.isWellFormed()) return order
  // Capturing: the surrogates stay in the list.
  const parts = order.split(/([\udc80-\udcff])/u)
  return Buffer.concat(
    parts.map((part, index) =>
      index % 2 === 0 ? Buffer.from(part) : Buffer.from([part.charCodeAt(0) - firstSurrogate]),
    ),
  )
}

function step(kind: string, value: string | number): string {
  const lines = String(value).split('\n')
  if (lines.some((line) => line.includes('\0')))
    throw new TypeError('Arguments and variables cannot contain NUL.')
  const parts = lines.slice(0, -1).map((line) => `part\n${line}\n`)
  return `${parts.join('')}${kind}\n${lines.at(-1)}\n`
}

/** A preforker that starts processes from this one, on demand. */
export function preforkInProcess(variables: Record<string, string>): Preforker {
  return { take: async () => openPreforkedProcess({ variables }), prepare() {} }
}
