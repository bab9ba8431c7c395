import { setPriority } from 'node:os'
import type { Duplex, Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { killGroup } from '#base/kill-group.ts'
import type { Problem } from '#base/problem.ts'
import type { PlainSettings } from '#config/settings.ts'
import { gitCommands } from './commands.ts'
import { gitConfig } from './git-config.ts'
import { type GitLimits, limitExceeded } from './limit-exceeded.ts'
import { ownerVariable } from './orphans.ts'
import {
  type ExitStatus,
  type Limits,
  openPreforkedProcess,
  type PreforkedProcess,
  type Preforker,
  preforkInProcess,
  toOrder,
} from './preforked-process.ts'
import type { SpawnHelper } from './spawn-helper.ts'

/** Starts all git processes, each with limits. */
export type Git = {
  /** Starts git in its own process group. Disposing the process ends the group and waits for its end. */
  start: (command: readonly string[], options?: GitStartOptions) => Promise<GitProcess>
  /** Starts git receive-pack for a push. */
  startPush: (
    directory: string,
    options?: Pick<GitStartOptions, 'protocol' | 'config'>,
  ) => Promise<GitProcess>
  /** Starts processes in advance, so that the first request is not slower than the next ones. */
  prepare: () => void
  /** Runs a command and returns its output. Throws a GitError when it fails. */
  run: (command: readonly string[], options?: RunOptions) => Promise<string>
  /** Runs a command and returns its output, or undefined when that exceeds `maxBytes`. Throws a GitError when it fails. */
  runUpTo: (
    maxBytes: number,
    command: readonly string[],
    options?: RunOptions,
  ) => Promise<Buffer | undefined>
  /** The number of running processes. */
  count: () => number
  /** Kills all running processes without waiting, for a program that is about to exit. */
  killAll: () => void
}

/** A running git process with its children, and the ends of its pipes. */
export type GitProcess = AsyncDisposable & {
  stdin: Writable
  stdout: Readable
  /** Connected to descriptor 3 of git and its hooks. */
  channel: Duplex
  ended: Promise<Ended>
  /** Returns the limit that ended a child of git, judging by its error message. */
  limitExceeded: (errorOutput: string) => Problem | undefined
  isRunning: () => boolean
}

/** How a git process ended. */
export type Ended = {
  exitCode: number | null
  /** The start of its standard error. */
  errorOutput: string
  /** The limit that ended it, if any. */
  exceeded?: Problem
}

/** Thrown when a git command fails. */
export class GitError extends Error {
  override readonly name = 'GitError'
  /** The system error code, errno(3), that git's message is about: ENOSPC, or EEXIST for a lock of another git. */
  readonly code: string | undefined
  /** Whether git rejected the operation; otherwise it was killed, or hit a system error or limit. */
  readonly isRefusal: boolean
  /** What git wrote to its standard error. */
  readonly errorOutput: string

  constructor(command: string, { exitCode, errorOutput, exceeded }: Ended) {
    super(`git ${command} ended with ${exitCode ?? 'a signal'}: ${errorOutput.trim()}`, {
      cause: exceeded,
    })
    this.errorOutput = errorOutput.trim()
    this.code = codeOf(errorOutput)
    this.isRefusal = exitCode !== null && this.code === undefined && !exceeded
  }
}

function codeOf(errorOutput: string): string | undefined {
  // Of its configuration, Git does not say why.
  const full =
    /No space left|out of diskspace|quota exceeded|failed to write new configuration file/i
  if (full.test(errorOutput)) return 'ENOSPC'
  const isLocked = errorOutput
    .split('\n')
    .some((line) => line.includes("Unable to create '") && line.includes(".lock': File exists"))
  return isLocked ? 'EEXIST' : undefined
}

/** The folder of the hooks, which authorize every push: see assertHooks. */
export const hooksPath = fileURLToPath(new URL('hooks', import.meta.url))

/** Processor time for background work whose duration depends on the repository's size. */
export const backgroundCpuSeconds = 86_400

const errorOutputMaxLength = 16_384
const killAfterMs = 5000

/** Limits of git processes: see the settings of the same names. */
type GitSettings = Pick<
  PlainSettings,
  'pushMaxBytes' | 'pushMemoryMaxBytes' | 'gitMemoryMaxBytes' | 'gitCpuMaxSeconds'
>

type Options = {
  /** Marks the processes, for endOrphans. */
  owner: string
  settings: GitSettings
  /** The search path for programs, in the form of PATH. */
  path: string
  /** Starts processes in place of this one. */
  spawnHelper?: Pick<SpawnHelper, 'preforkerWith'> | undefined
}

export type GitStartOptions = {
  /** Git's protocol version: `version=0`, `1` or `2`. */
  protocol?: string
  /** Additional git settings. */
  config?: Record<string, string> | undefined
  /** Additional environment variables. */
  variables?: Record<string, string>
  /** Marks the process for endOrphans, in place of the default owner. */
  owner?: string
  /** Resource limits that differ from the defaults: setrlimit(2). */
  limits?: Partial<Limits>
  /** Whether it runs at idle priority, for both processor and disk. */
  isIdle?: boolean
  /** How far it yields the processor to others, 0 to 19: nice(2). */
  niceness?: number
  /** Standard input: a file descriptor or another git's output. There is no `stdin` then. */
  reads?: number | Readable
  /** Called with each line of `--progress`, which then does not count as an error message. */
  onProgress?: (line: string) => void
}

type RunOptions = GitStartOptions & { input?: string }

// The shell's exit status when there is no such program: POSIX, exec.
const notFound = 127

export function createGit({ owner, settings, path, spawnHelper }: Options): Git {
  // Every command has limits: repositories are untrusted input.
  const commonLimits = {
    memoryMaxBytes: settings.gitMemoryMaxBytes,
    cpuMaxSeconds: settings.gitCpuMaxSeconds,
  }
  const running = new Set<number>()
  const configuration = gitConfig({ hooksPath, pushMaxBytes: settings.pushMaxBytes })
  const environment = {
    PATH: path,
    HOME: '/nonexistent',
    // Git treats names as bytes, and loading another locale takes a third of a millisecond.
    LANG: 'C',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_TERMINAL_PROMPT: '0',
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_NO_LAZY_FETCH: '1',
    GIT_OPTIONAL_LOCKS: '0',
    // Git 3.0 has other defaults: https://git-scm.com/docs/BreakingChanges
    GIT_DEFAULT_HASH: 'sha1',
    GIT_DEFAULT_REF_FORMAT: 'files',
    ...asVariables(configuration),
  }
  const preforker: Preforker =
    spawnHelper?.preforkerWith(environment) ?? preforkInProcess(environment)

  async function start(
    command: readonly string[],
    options: GitStartOptions = {},
  ): Promise<GitProcess> {
    const { protocol = '', config, variables, reads, limits, isIdle, niceness } = options
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
    if (niceness !== undefined) setNiceness(preforked.pid, niceness)
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
    const toEnded = ({ status, errorOutput }: Awaited<ReturnType<typeof untilEnd>>): Ended => {
      const exceeded = limitExceeded({ ...status, errorOutput }, limits, commonLimits)
      return { exitCode: status.exitCode, errorOutput, ...(exceeded && { exceeded }) }
    }
    const all = untilEnd(preforked, onProgress).then(toEnded)
    const ended = all.finally(() => {
      isRunning = false
      if (pid !== undefined) running.delete(pid)
      // Unread input is of no use any more.
      stdin?.destroy()
    })
    // Without a handler, a failure that is not awaited yet would end the program.
    ended.catch(() => {})
    return {
      stdin,
      stdout,
      channel,
      ended,
      limitExceeded: (errorOutput) => limitExceeded({ errorOutput }, limits, commonLimits),
      isRunning: () => isRunning,
      async [Symbol.asyncDispose]() {
        if (isRunning) await endGroup(pid, ended)
        for (const stream of [stdin, stdout, channel]) stream?.destroy()
      },
    }
  }

  return {
    start,

    startPush: (directory, { protocol = '', config } = {}) =>
      start(gitCommands.push(directory), {
        protocol,
        config,
        limits: { memoryMaxBytes: settings.pushMemoryMaxBytes },
      }),

    prepare: preforker.prepare,

    async run(command, options = {}) {
      await using child = await start(command, options)
      child.stdin.end(options.input)
      const [output, ended] = await Promise.all([text(child.stdout), child.ended])
      if (ended.exitCode !== 0) throw new GitError(command[0] ?? '', ended)
      return output
    },

    async runUpTo(maxBytes, command, options = {}) {
      await using child = await start(command, options)
      child.stdin.end(options.input)
      const chunks: Buffer[] = []
      let bytes = 0
      for await (const chunk of child.stdout) {
        bytes += chunk.length
        if (bytes > maxBytes) return undefined
        chunks.push(chunk)
      }
      const ended = await child.ended
      if (ended.exitCode !== 0) throw new GitError(command[0] ?? '', ended)
      return Buffer.concat(chunks)
    },

    count: () => running.size,

    killAll() {
      for (const pid of running) killGroup(pid, 'SIGKILL')
    },
  }
}

/** Returns a git whose commands, other than pushes, have some options in place of those of the caller. */
export function withOptions(git: Git, own: GitStartOptions): Git {
  return {
    ...git,
    start: (command, options) => git.start(command, { ...options, ...own }),
    run: (command, options) => git.run(command, { ...options, ...own }),
    runUpTo: (maxBytes, command, options) => git.runUpTo(maxBytes, command, { ...options, ...own }),
  }
}

function setNiceness(pid: number | undefined, niceness: number): void {
  if (pid === undefined) return
  try {
    setPriority(pid, niceness)
  } catch {
    // It has ended, which is noticed where its end is awaited.
  }
}

async function untilEnd(
  preforked: PreforkedProcess,
  onProgress?: (line: string) => void,
): Promise<{ status: ExitStatus; errorOutput: string }> {
  let errorOutput = ''
  const onErrorOutput = (text: string) => {
    errorOutput = (errorOutput + text).slice(0, errorOutputMaxLength)
  }
  preforked.listen(onProgress ? splitProgress(onErrorOutput, onProgress) : onErrorOutput)
  // A git that ends early breaks these pipes; its exit code gives the reason. `stdin` is null with `reads`.
  for (const stream of [preforked.stdin, preforked.stdout, preforked.channel])
    stream?.on('error', () => {})
  const status = await preforked.ended
  if (status.exitCode === notFound)
    throw Object.assign(new Error(errorOutput.trim()), { code: 'ENOENT' })
  return { status, errorOutput }
}

// Lines of progress end in a carriage return, the last of them in `, done.`. Messages of a remote git are not counted
// as errors, either: a malicious remote could bury git's own messages beneath them.
function splitProgress(onErrorOutput: (text: string) => void, onProgress: (line: string) => void) {
  let rest = ''
  let lastProgress = ''
  return (text: string) => {
    // Lines of ssh end in \r\n and are not progress.
    if (lastProgress !== '' && text.startsWith('\n')) onErrorOutput(lastProgress)
    const lines = (rest + text).split(/(?<=\n|\r(?!\n))/)
    rest = /[\r\n]$/.test(lines.at(-1) ?? '') ? '' : (lines.pop() ?? '')
    if (rest.length > errorOutputMaxLength) rest = ''
    lastProgress = ''
    for (const line of lines) {
      if (/^remote: |\r$|, done\.\n$/.test(line)) onProgress(line.trim())
      else onErrorOutput(line)
      lastProgress = line.endsWith('\r') ? line : ''
    }
  }
}

async function endGroup(pid: number | undefined, ended: Promise<Ended>): Promise<void> {
  killGroup(pid, 'SIGTERM')
  using _kill = setTimeout(() => killGroup(pid, 'SIGKILL'), killAfterMs)
  await ended.catch(() => {})
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
