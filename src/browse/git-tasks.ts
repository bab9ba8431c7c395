import { availableParallelism } from 'node:os'
import { limitKeyOf, type Principal } from '#access/principal.ts'
import { chunksOf } from '#base/chunks.ts'
import { createFairLimiter } from '#base/concurrency/fair-limiter.ts'
import { Problem, problemIn } from '#base/problem.ts'
import type { PlainSettings } from '#config/settings.ts'
import { type Git, GitError } from '#git/process/git-process.ts'
import type { ReusedProcesses } from '#git/process/reused-processes.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { Store } from '#repositories/store/store.ts'

/** Who asks for a response that a git process computes, until when. */
export type Requester = { principal: Principal; repository: Repository; signal: AbortSignal }

export type Task<T> = {
  command: readonly string[]
  /** Standard input. */
  input?: string
  /** Exit codes besides 0 that are no failure. */
  accepts?: readonly number[]
  /** Memory of the process, if less than usual. */
  memoryMaxBytes?: number
  /** No limit of time, for streams to the client. */
  isStream?: boolean
  /** Whether the process can serve later requests: it responds to input, and repeats lines that it does not understand. */
  isReusable?: boolean
  /** Consumes the output. The process is killed when it returns before the end. */
  read: (output: AsyncIterable<Buffer>) => Promise<T>
}

/** Runs git processes that read a repository, with limits of their number and duration. */
export type GitTasks = {
  /** Throws `git_busy`, `git_limit_exceeded`, GitErrors and the signal's reason. */
  run: <T>(requester: Requester, task: Task<T>) => Promise<T>
  counts: () => { running: number; waiting: number }
}

type Limits = { memoryMaxBytes: number; signal: AbortSignal }

const processesPerCore = 2
const perKey = 2

type Options = {
  git: Git
  store: Pick<Store, 'at'>
  reused: ReusedProcesses
  settings: Pick<
    PlainSettings,
    'maxConcurrentBrowses' | 'browseSeconds' | 'gitWaiting' | 'gitWaitSeconds' | 'gitMemoryMaxBytes'
  >
}

export function createGitTasks({ git, store, reused, settings }: Options): GitTasks {
  const limiter = createFairLimiter({
    overall: settings.maxConcurrentBrowses ?? processesPerCore * availableParallelism(),
    perKey,
    waiting: settings.gitWaiting,
    waitMs: settings.gitWaitSeconds * 1000,
  })

  async function runAlone<T>(task: Task<T>, { memoryMaxBytes, signal }: Limits): Promise<T> {
    const { command, input, accepts = [], read } = task
    await using child = await git.start(command, { limits: { memoryMaxBytes } })
    child.stdin.end(input)
    let isAtEnd = false
    async function* output() {
      yield* chunksOf(child.stdout, signal)
      isAtEnd = true
    }
    const result = await read(output()).catch(async (error) => {
      // Output that ends too early is explained by the limit that ended git.
      const exceeded = isAtEnd ? (await child.ended).exceeded : undefined
      throw exceeded ?? error
    })
    if (!isAtEnd) return result
    const ended = await child.ended
    if (ended.exitCode === 0 || accepts.includes(ended.exitCode ?? -1)) return result
    throw ended.exceeded ?? new GitError(nameOf(command), ended)
  }

  async function runReused<T>(
    task: Task<T>,
    { memoryMaxBytes, signal }: Limits,
    isNew = false,
  ): Promise<T> {
    const { command, input = '', read } = task
    {
      await using child = await reused.acquire(command, { memoryMaxBytes, isNew })
      try {
        return await read(child.respond(input, signal))
      } catch (error) {
        // It may have been killed, or have reached a limit by the requests before.
        if (signal.aborted || !child.hasWornOut()) throw error
      }
    }
    return runReused(task, { memoryMaxBytes, signal }, true)
  }

  return {
    async run({ principal, repository, signal }, task) {
      const memoryMaxBytes = Math.min(
        task.memoryMaxBytes ?? Number.POSITIVE_INFINITY,
        settings.gitMemoryMaxBytes,
      )
      const keys = [limitKeyOf(principal), repository.id]
      using _permit = await limiter.acquire(keys, signal)
      // The cache of a shared store may have evicted the directory during the wait.
      await store.at({ id: repository.id, version: 0 })
      const timeout = task.isStream ? undefined : AbortSignal.timeout(settings.browseSeconds * 1000)
      const ending = timeout ? AbortSignal.any([signal, timeout]) : signal
      const run = task.isReusable ? runReused : runAlone
      try {
        return await run(task, { memoryMaxBytes, signal: ending })
      } catch (error) {
        if (timeout?.aborted && !signal.aborted)
          throw tookTooLong(settings.browseSeconds, timeout.reason)
        throw error
      }
    },

    counts: limiter.counts,
  }
}

/** Whether a task ended since it took too long. */
export function isTimeLimit(error: unknown): boolean {
  const cause = error instanceof Problem ? error.cause : undefined
  return cause instanceof DOMException && cause.name === 'TimeoutError'
}

/** Whether a task ended since git reached another limit of the process, such as that of memory. */
export function isMemoryLimit(error: unknown): boolean {
  return problemIn(error)?.code === 'git_limit_exceeded' && !isTimeLimit(error)
}

/** The command of git among its words. */
function nameOf(command: readonly string[]): string {
  return command.find((word) => !word.startsWith('-')) ?? ''
}

function tookTooLong(seconds: number, cause: unknown): Problem {
  return new Problem(
    'git_limit_exceeded',
    `The answer took git longer than ${seconds} s, the limit of SVC_BROWSE_SECONDS. Ask for less, such as a smaller file, folder or range.`,
    { cause },
  )
}
