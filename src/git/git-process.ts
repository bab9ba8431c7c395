import { type ChildProcess, spawn } from 'node:child_process'
import type { Duplex, Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { gitCommands, gitConfig } from './commands.ts'
import { ownerVariable } from './orphans.ts'

export type Git = ReturnType<typeof createGit>

/** A running git, with all that it starts, and the ends of its pipes. */
export type GitProcess = AsyncDisposable & {
  stdin: Writable
  stdout: Readable
  /** Descriptor 3 of git and its hooks is the other end. */
  channel: Duplex
  ended: Promise<Ended>
  isRunning: () => boolean
}

/** How a git process ended. `complaint` is the start of what it wrote to standard error. */
export type Ended = { exitCode: number | null; complaint: string }

/** A git command that failed by itself. */
export class GitFailure extends Error {
  override readonly name = 'GitFailure'
  /**
   * The system's error code, where git's complaint is about one that matters: errno(3). EEXIST is a lock that another
   * git has, or has left.
   */
  readonly code: string | undefined
  /** Whether git has refused what it was told to do; else it was killed, or could not. */
  readonly isRefusal: boolean

  constructor(command: string, { exitCode, complaint }: Ended) {
    super(`git ${command} ended with ${exitCode ?? 'a signal'}: ${complaint.trim()}`)
    this.code = codeOf(complaint)
    this.isRefusal = exitCode !== null && this.code === undefined
  }
}

function codeOf(complaint: string): string | undefined {
  if (/No space left|out of diskspace|quota exceeded/i.test(complaint)) return 'ENOSPC'
  return /Unable to create '.*\.lock': File exists/.test(complaint) ? 'EEXIST' : undefined
}

/** Where the hooks are. They are the gate of every push: see assertHooks. */
export const hooksPath = fileURLToPath(new URL('hooks', import.meta.url))

const complaintMaxLength = 16_384
const killAfterMs = 5000

type Options = {
  /** Marks the processes, for endOrphans. */
  owner: string
  pushMaxBytes: number
  /** Most memory that each process of a push may take: setrlimit(2), RLIMIT_DATA. */
  pushMemoryMaxBytes: number
  /** Where programs are looked for. */
  path: string
}

type StartOptions = {
  /** `version=0`, `1` or `2` of Git's protocol. */
  protocol?: string
  /** Settings for this command alone. */
  config?: Record<string, string>
  /** Further variables for this command alone. */
  variables?: Record<string, string>
  /** What marks this command for endOrphans, in place of what marks the others. */
  owner?: string
  /** What each of its processes may take: setrlimit(2). */
  limits?: Limits
  /** Whether it gets only what time of processors and disks nobody else wants. */
  isIdle?: boolean
  /** A file's descriptor or another git's output that it reads by itself: nobody else can, and `stdin` is none. */
  reads?: number | Readable
  /** Called with each line of progress, which is no complaint: git's `--progress`. */
  onProgress?: (line: string) => void
}

type RunOptions = StartOptions & { input?: string }

type Limits = {
  /** Bytes of memory: RLIMIT_DATA. */
  memoryMaxBytes: number
  /** Bytes of each file that is written: RLIMIT_FSIZE. */
  fileMaxBytes: number
}

// The processes of a push have done their starting by then.
const prepareAfterMs = 60

/** Starts git processes: the one place where git is spawned. */
export function createGit({ owner, pushMaxBytes, pushMemoryMaxBytes, path }: Options) {
  const running = new Set<ChildProcess>()
  const environment = {
    PATH: path,
    HOME: '/nonexistent',
    LANG: 'C.UTF-8',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_TERMINAL_PROMPT: '0',
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_NO_LAZY_FETCH: '1',
    GIT_OPTIONAL_LOCKS: '0',
  }
  const configuration = gitConfig({ hooksPath, pushMaxBytes })
  const usual = asVariables(configuration)
  const pushOptions = gitCommands.push('').slice(0, -1)
  let prepared: GitProcess | undefined
  let stopped = false

  function spawnGroup(command: readonly [string, ...string[]], options: StartOptions): GitProcess {
    const [program, ...args] = command
    const { protocol = '', config, variables } = options
    const child = spawn(program, args, {
      env: {
        ...environment,
        ...(config ? asVariables({ ...configuration, ...config }) : usual),
        ...variables,
        [ownerVariable]: options.owner ?? owner,
        ...(protocol && { GIT_PROTOCOL: protocol }),
      },
      stdio: [options.reads ?? 'pipe', 'pipe', 'pipe', 'pipe'],
      cwd: '/',
      detached: true,
    })
    // With a second reader, who writes would not learn of the first one's end.
    if (typeof options.reads === 'object') options.reads.destroy()
    running.add(child)
    const ended = untilEnd(child, options.onProgress).finally(() => running.delete(child))
    // Whoever awaits `ended` learns of a failure; without this line it would also end the program.
    ended.catch(() => {})
    // Four pipes were asked for, so they are there; Node makes those beyond the third sockets.
    const [stdin, stdout, , channel] = child.stdio as unknown as [
      Writable,
      Readable,
      Readable,
      Duplex,
    ]
    return {
      stdin,
      stdout,
      channel,
      ended,
      isRunning: () => running.has(child),
      async [Symbol.asyncDispose]() {
        if (running.has(child)) await endGroup(child, ended)
      },
    }
  }

  // To start a program takes a server longer than to have one waiting that becomes git when it is told
  // which repository it is for.
  function preparePush(): GitProcess {
    const script =
      `ulimit -d ${kibOf(pushMemoryMaxBytes)} && IFS= read -r GIT_PROTOCOL && ` +
      'IFS= read -r directory && export GIT_PROTOCOL && exec git "$@" "$directory"'
    return spawnGroup(['sh', '-c', script, 'sh', ...pushOptions], {})
  }

  function prepareNext(): void {
    setTimeout(() => {
      if (!stopped && !prepared?.isRunning()) prepared = preparePush()
    }, prepareAfterMs).unref()
  }

  return {
    /** Starts git in a process group of its own. Disposing of the process ends the group and waits for it. */
    start: (command: readonly string[], options: StartOptions = {}): GitProcess =>
      spawnGroup(wrapped(['git', ...command], options), options),

    /** Starts git for a push into a repository, which must not have a line end in its path. */
    startPush(directory: string, { protocol = '' }: StartOptions = {}): GitProcess {
      const child = prepared?.isRunning() ? prepared : preparePush()
      prepared = undefined
      child.stdin.write(`${protocol}\n${directory}\n`)
      prepareNext()
      return child
    },

    /** Has the first push not wait for more than those after it. */
    prepare: prepareNext,

    /** Runs a short command to its end. Throws a GitFailure when it fails. */
    async run(command: readonly string[], options: RunOptions = {}): Promise<string> {
      await using child = this.start(command, options)
      child.stdin.end(options.input)
      const [output, ended] = await Promise.all([text(child.stdout), child.ended])
      if (ended.exitCode !== 0) throw new GitFailure(command[0] ?? '', ended)
      return output
    },

    /** The same of a command that may have much to say: undefined when that is more than so many bytes. */
    async runUpTo(
      maxBytes: number,
      command: readonly string[],
      options: StartOptions = {},
    ): Promise<string | undefined> {
      await using child = this.start(command, options)
      child.stdin.end()
      const chunks: Buffer[] = []
      let bytes = 0
      for await (const chunk of child.stdout) {
        bytes += chunk.length
        if (bytes > maxBytes) return undefined
        chunks.push(chunk)
      }
      const ended = await child.ended
      if (ended.exitCode !== 0) throw new GitFailure(command[0] ?? '', ended)
      return Buffer.concat(chunks).toString('utf8')
    },

    /** How many run; the one that waits for the next push does not count. */
    count: () => running.size - (prepared?.isRunning() ? 1 : 0),

    /** Ends whatever still runs, without waiting: for a program that is about to exit. */
    killAll(): void {
      stopped = true
      for (const child of running) killGroup(child.pid, 'SIGKILL')
    },
  }
}

// A process can only limit itself, so it does so on its way to becoming git.
function wrapped(
  command: [string, ...string[]],
  { limits, isIdle }: StartOptions,
): [string, ...string[]] {
  if (!limits && !isIdle) return command
  const steps = [
    ...(limits ? [`ulimit -d ${kibOf(limits.memoryMaxBytes)}`] : []),
    // The shell counts files in blocks of 512 bytes: POSIX, ulimit.
    ...(limits ? [`ulimit -f ${Math.ceil(limits.fileMaxBytes / 512)}`] : []),
    ...(isIdle ? [becomeIdle] : []),
    `exec ${isIdle ? 'nice -n 19 ' : ''}"$@"`,
  ]
  return ['sh', '-c', steps.join(' && '), 'sh', ...command]
}

// Where sessions are groups of their own to the scheduler (sched(7), autogroup), nice(1) counts only within them.
const becomeIdle = '{ echo 19 >/proc/self/autogroup; ionice -c 3 -p $$; :; } >/dev/null 2>&1'

function kibOf(bytes: number): number {
  return Math.floor(bytes / 1024)
}

function untilEnd(child: ChildProcess, onProgress?: (line: string) => void): Promise<Ended> {
  return new Promise((resolve, reject) => {
    let complaint = ''
    const complain = (text: string) => {
      complaint = (complaint + text).slice(0, complaintMaxLength)
    }
    const listen = onProgress ? splitProgress(complain, onProgress) : complain
    child.stderr?.setEncoding('utf8').on('data', listen)
    child.on('error', reject)
    child.on('close', (exitCode) => resolve({ exitCode, complaint }))
    // A git that ends early breaks these pipes; its exit code says why, the broken pipe does not.
    for (const stream of child.stdio) stream?.on('error', () => {})
  })
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

async function endGroup(child: ChildProcess, ended: Promise<Ended>): Promise<void> {
  killGroup(child.pid, 'SIGTERM')
  const timer = setTimeout(() => killGroup(child.pid, 'SIGKILL'), killAfterMs)
  // Unread output would keep `close` from coming.
  for (const stream of child.stdio) stream?.destroy()
  await ended.catch(() => {})
  clearTimeout(timer)
}

/** Sends a signal to a process group; one that is gone already is fine. */
function killGroup(pid: number | undefined, signal: NodeJS.Signals): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch {
    // ESRCH: nobody is left in the group.
  }
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
