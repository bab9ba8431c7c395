import type { Duplex, Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { Problem } from '../../base/problem.ts'
import { gitCommands, gitConfig } from './commands.ts'
import { type GitLimits, limitExceeded } from './limit-exceeded.ts'
import { ownerVariable } from './orphans.ts'
import {
  type ExitStatus,
  type Limits,
  openPreforkedProcess,
  type PreforkedProcess,
  type Preforker,
  preforkHere,
  toOrder,
} from './preforked-process.ts'
import { killGroup } from './process-group.ts'
import type { SpawnHelper } from './spawn-helper.ts'

export type Git = ReturnType<typeof createGit>

/** A running git, with all that it starts, and the ends of its pipes. */
export type GitProcess = AsyncDisposable & {
  stdin: Writable
  stdout: Readable
  /** Descriptor 3 of git and its hooks is the other end. */
  channel: Duplex
  ended: Promise<Ended>
  /** Says which of its limits has ended a process that it started, by what that has written. */
  limitExceeded: (complaint: string) => Problem | undefined
  isRunning: () => boolean
}

/** How a git process ended. */
export type Ended = {
  exitCode: number | null
  /** The start of what it wrote to standard error. */
  complaint: string
  /** Says which of its limits it has exceeded, if that ended it. */
  exceeded?: Problem
}

/** A git command that failed by itself. */
export class GitError extends Error {
  override readonly name = 'GitFailure'
  /**
   * The system's error code, where git's complaint is about one that matters: errno(3). EEXIST is a lock that another
   * git has, or has left.
   */
  readonly code: string | undefined
  /** Whether git has refused what it was told to do; else it was killed, or could not. */
  readonly isRefusal: boolean

  constructor(command: string, { exitCode, complaint, exceeded }: Ended) {
    super(`git ${command} ended with ${exitCode ?? 'a signal'}: ${complaint.trim()}`, {
      cause: exceeded,
    })
    this.code = codeOf(complaint)
    this.isRefusal = exitCode !== null && this.code === undefined && !exceeded
  }
}

function codeOf(complaint: string): string | undefined {
  if (/No space left|out of diskspace|quota exceeded/i.test(complaint)) return 'ENOSPC'
  const isLocked = complaint
    .split('\n')
    .some((line) => line.includes("Unable to create '") && line.includes(".lock': File exists"))
  return isLocked ? 'EEXIST' : undefined
}

/** Where the hooks are. They are the gate of every push: see assertHooks. */
export const hooksPath = fileURLToPath(new URL('hooks', import.meta.url))

/** Processor time for work that takes as long as a repository is large, and for which no client takes a turn. */
export const backgroundCpuSeconds = 86_400

const complaintMaxLength = 16_384
const killAfterMs = 5000

type Options = {
  /** Marks the processes, for endOrphans. */
  owner: string
  pushMaxBytes: number
  /** Most memory that each process of a push may take: setrlimit(2), RLIMIT_DATA. */
  pushMemoryMaxBytes: number
  /** The same for each process of every other command that is given no limit of its own. */
  gitMemoryMaxBytes: number
  /** Most processor time that each process may take, in seconds, unless its command is given another limit. */
  gitCpuMaxSeconds: number
  /** Where programs are looked for. */
  path: string
  /** What starts processes, if this one shall not. */
  starter?: Pick<SpawnHelper, 'preforkerWith'> | undefined
}

type StartOptions = {
  /** `version=0`, `1` or `2` of Git's protocol. */
  protocol?: string
  /** Settings for this command alone. */
  config?: Record<string, string> | undefined
  /** Further variables for this command alone. */
  variables?: Record<string, string>
  /** What marks this command for endOrphans, in place of what marks the others. */
  owner?: string
  /** What each of its processes may take, where that is not what all others may: setrlimit(2). */
  limits?: Partial<Limits>
  /** Whether it gets only what time of processors and disks nobody else wants. */
  isIdle?: boolean
  /** A file's descriptor or another git's output that it reads by itself: nobody else can, and `stdin` is none. */
  reads?: number | Readable
  /** Called with each line of progress, which is no complaint: git's `--progress`. */
  onProgress?: (line: string) => void
}

type RunOptions = StartOptions & { input?: string }

// A shell says by it that there is no such program: POSIX, exec.
const notFound = 127

/** Starts git processes: the one place where git is started. */
export function createGit(options: Options) {
  const { owner, pushMaxBytes, pushMemoryMaxBytes, path, starter } = options
  // No command is without limits: what it works on was made by strangers.
  const commonLimits = {
    memoryMaxBytes: options.gitMemoryMaxBytes,
    cpuMaxSeconds: options.gitCpuMaxSeconds,
  }
  const running = new Set<number>()
  const configuration = gitConfig({ hooksPath, pushMaxBytes })
  const environment = {
    PATH: path,
    HOME: '/nonexistent',
    // To git names are bytes, and a locale with more letters takes a third of a millisecond to load.
    LANG: 'C',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_TERMINAL_PROMPT: '0',
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_NO_LAZY_FETCH: '1',
    GIT_OPTIONAL_LOCKS: '0',
    ...asVariables(configuration),
  }
  const preforker: Preforker = starter?.preforkerWith(environment) ?? preforkHere(environment)

  async function start(
    command: readonly string[],
    options: StartOptions = {},
  ): Promise<GitProcess> {
    const { protocol = '', config, variables, reads, limits, isIdle } = options
    const allLimits = { ...commonLimits, ...limits }
    const order = toOrder({
      command: ['git', ...command],
      variables: {
        ...(config && asVariables({ ...configuration, ...config })),
        ...variables,
        [ownerVariable]: options.owner ?? owner,
        ...(protocol && { GIT_PROTOCOL: protocol }),
      },
      limits: allLimits,
      isIdle,
    })
    const preforked =
      reads === undefined
        ? await preforker.take()
        : openPreforkedProcess({ variables: environment, reads })
    preforked.channel.write(order)
    return toProcess(preforked, allLimits, options.onProgress)
  }

  function toProcess(
    preforked: PreforkedProcess,
    limits: GitLimits,
    onProgress?: (line: string) => void,
  ): GitProcess {
    const { pid, stdin, stdout, channel } = preforked
    let isRunning = true
    if (pid !== undefined) running.add(pid)
    const toEnded = ({ status, complaint }: Awaited<ReturnType<typeof untilEnd>>): Ended => {
      const exceeded = limitExceeded({ ...status, complaint }, limits, commonLimits)
      return { exitCode: status.exitCode, complaint, ...(exceeded && { exceeded }) }
    }
    const all = untilEnd(preforked, onProgress).then(toEnded)
    const ended = all.finally(() => {
      isRunning = false
      if (pid !== undefined) running.delete(pid)
      // What was not read by its end never will be.
      stdin?.destroy()
    })
    // Whoever awaits `ended` learns of a failure; without this line it would also end the program.
    ended.catch(() => {})
    return {
      stdin,
      stdout,
      channel,
      ended,
      limitExceeded: (complaint) => limitExceeded({ complaint }, limits, commonLimits),
      isRunning: () => isRunning,
      async [Symbol.asyncDispose]() {
        if (isRunning) await endGroup(pid, ended)
        for (const stream of [stdin, stdout, channel]) stream?.destroy()
      },
    }
  }

  return {
    /** Starts git in a process group of its own. Disposing of the process ends the group and waits for it. */
    start,

    /** Starts git for a push into a repository. */
    startPush: (
      directory: string,
      { protocol = '', config }: StartOptions = {},
    ): Promise<GitProcess> =>
      start(gitCommands.push(directory), {
        protocol,
        config,
        limits: { memoryMaxBytes: pushMemoryMaxBytes },
      }),

    /** Has the first request not wait for more than those after it. */
    prepare: preforker.prepare,

    /** Runs a short command to its end. Throws a GitFailure when it fails. */
    async run(command: readonly string[], options: RunOptions = {}): Promise<string> {
      await using child = await start(command, options)
      child.stdin.end(options.input)
      const [output, ended] = await Promise.all([text(child.stdout), child.ended])
      if (ended.exitCode !== 0) throw new GitError(command[0] ?? '', ended)
      return output
    },

    /** The same of a command that may have much to say: undefined when that is more than so many bytes. */
    async runUpTo(
      maxBytes: number,
      command: readonly string[],
      options: StartOptions = {},
    ): Promise<string | undefined> {
      await using child = await start(command, options)
      child.stdin.end()
      const chunks: Buffer[] = []
      let bytes = 0
      for await (const chunk of child.stdout) {
        bytes += chunk.length
        if (bytes > maxBytes) return undefined
        chunks.push(chunk)
      }
      const ended = await child.ended
      if (ended.exitCode !== 0) throw new GitError(command[0] ?? '', ended)
      return Buffer.concat(chunks).toString('utf8')
    },

    /** How many run. */
    count: () => running.size,

    /** Ends whatever still runs, without waiting: for a program that is about to exit. */
    killAll(): void {
      for (const pid of running) killGroup(pid, 'SIGKILL')
    },
  }
}

async function untilEnd(
  preforked: PreforkedProcess,
  onProgress?: (line: string) => void,
): Promise<{ status: ExitStatus; complaint: string }> {
  let complaint = ''
  const complain = (text: string) => {
    complaint = (complaint + text).slice(0, complaintMaxLength)
  }
  preforked.listen(onProgress ? splitProgress(complain, onProgress) : complain)
  // A git that ends early breaks these pipes; its exit code says why, the broken pipe does not. There is no
  // standard input where it reads by itself.
  for (const stream of [preforked.stdin, preforked.stdout, preforked.channel])
    stream?.on('error', () => {})
  const status = await preforked.ended
  if (status.exitCode === notFound)
    throw Object.assign(new Error(complaint.trim()), { code: 'ENOENT' })
  return { status, complaint }
}

// Progress overwrites itself on a terminal: such a line ends in a carriage return, and in `, done.` at last.
// What a remote git has to say is no complaint, either; a stranger could bury git's own beneath it.
function splitProgress(complain: (text: string) => void, onProgress: (line: string) => void) {
  let rest = ''
  let passed = ''
  return (text: string) => {
    // The lines of ssh end in both, and are none of progress.
    if (passed !== '' && text.startsWith('\n')) complain(passed)
    const lines = (rest + text).split(/(?<=\n|\r(?!\n))/)
    rest = /[\r\n]$/.test(lines.at(-1) ?? '') ? '' : (lines.pop() ?? '')
    if (rest.length > complaintMaxLength) rest = ''
    passed = ''
    for (const line of lines) {
      if (/^remote: |\r$|, done\.\n$/.test(line)) onProgress(line.trim())
      else complain(line)
      passed = line.endsWith('\r') ? line : ''
    }
  }
}

async function endGroup(pid: number | undefined, ended: Promise<Ended>): Promise<void> {
  killGroup(pid, 'SIGTERM')
  const timer = setTimeout(() => killGroup(pid, 'SIGKILL'), killAfterMs)
  await ended.catch(() => {})
  clearTimeout(timer)
}

function asVariables(config: Record<string, string>): Record<string, string> {
  const entries = Object.entries(config)
  const variables = entries.flatMap(([key, value], index) => [
    [`GIT_CONFIG_KEY_${index}`, key],
    [`GIT_CONFIG_VALUE_${index}`, value],
  ])
  return { GIT_CONFIG_COUNT: String(entries.length), ...Object.fromEntries(variables) }
}

async function text(stream: Readable): Promise<string> {
  let all = ''
  for await (const chunk of stream.setEncoding('utf8')) all += chunk
  return all
}
