import { randomBytes } from 'node:crypto'
import { chunksOf } from '#base/chunks.ts'
import { type Git, GitError, type GitProcess } from './git-process.ts'
import { createProcessPool } from './process-pool.ts'

/** Git processes that respond to one input after another: each serves one request at a time, and then the next. */
export type ReusedProcesses = AsyncDisposable & {
  /** Takes an idle process of a command, or starts one; with `isNew` always. */
  acquire: (
    command: readonly string[],
    options: { memoryMaxBytes: number; isNew?: boolean },
  ) => Promise<ReusedProcess>
}

/** Disposing it keeps the process for a later request, if the response was read to its end; otherwise ends it. */
export type ReusedProcess = AsyncDisposable & {
  /**
   * The response to lines of input. Throws a GitError, or the Problem of a limit, when the process ends, and the signal's
   * reason.
   */
  respond: (input: string, signal: AbortSignal) => AsyncGenerator<Buffer, void, undefined>
  /** Whether it has served requests before, and has ended: a new one may succeed. */
  hasWornOut: () => boolean
}

type Entry = AsyncDisposable & {
  name: string
  child: GitProcess
  isRunning: () => boolean
  uses: number
  busyMs: number
  bytes: number
}

/** See `createProcessPool`. */
type Options = { git: Pick<Git, 'start'>; maxIdle?: number; idleMs?: number }

// Memory and processor time of a process are limited, and add up.
const maxUses = 200
const maxBusyMs = 5000
const maxBytes = 16 * 1024 * 1024

/** For commands that repeat lines that they do not understand, such as `git diff-tree --stdin`. */
export function createReusedProcesses({ git, maxIdle = 4, idleMs }: Options): ReusedProcesses {
  const pool = createProcessPool<Entry>({ maxIdle, idleMs, isShared: false })

  async function start(command: readonly string[], memoryMaxBytes: number): Promise<Entry> {
    const child = await git.start(command, { limits: { memoryMaxBytes } })
    const name = command.find((word) => !word.startsWith('-')) ?? ''
    const { isRunning } = child
    const end = () => child[Symbol.asyncDispose]()
    return { name, child, isRunning, uses: 0, busyMs: 0, bytes: 0, [Symbol.asyncDispose]: end }
  }

  return {
    async acquire(command, { memoryMaxBytes, isNew }) {
      const key = [memoryMaxBytes, ...command].join('\0')
      const lease = pool.acquire(key, () => start(command, memoryMaxBytes), isNew)
      const entry = await lease.process
      return lend(entry, (isClean) => {
        const { uses, busyMs, bytes } = entry
        const isWorn = uses >= maxUses || busyMs > maxBusyMs || bytes > maxBytes
        return lease.release(isClean && !isWorn && entry.isRunning())
      })
    },

    [Symbol.asyncDispose]: () => pool[Symbol.asyncDispose](),
  }
}

function lend(
  entry: Entry,
  giveBack: (isClean: boolean) => Promise<void> | undefined,
): ReusedProcess {
  const { child, name } = entry
  const isReused = entry.uses > 0
  const startedAt = performance.now()
  let isClean = true
  return {
    async *respond(input, signal) {
      isClean = false
      // It is new, so no content of a repository can contain it.
      const last = Buffer.from(`end ${randomBytes(16).toString('hex')}\n`)
      child.stdin.write(`${input}${last}`)
      let held: Buffer = Buffer.alloc(0)
      for await (const chunk of chunksOf(child.stdout, signal)) {
        entry.bytes += chunk.length
        const bytes = held.length === 0 ? chunk : Buffer.concat([held, chunk])
        const rest = Math.max(0, bytes.length - last.length)
        isClean = bytes.subarray(rest).equals(last)
        held = isClean ? held : bytes.subarray(rest)
        if (rest > 0) yield bytes.subarray(0, rest)
        if (isClean) return
      }
      if (held.length > 0) yield held
      const ended = await child.ended
      throw ended.exceeded ?? new GitError(name, ended)
    },

    hasWornOut: () => isReused && !child.isRunning(),

    async [Symbol.asyncDispose]() {
      entry.uses += 1
      entry.busyMs += performance.now() - startedAt
      await giveBack(isClean)
    },
  }
}
