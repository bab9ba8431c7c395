import { randomBytes } from 'node:crypto'
import { chunksOf } from '#base/chunks.ts'
import { type Git, GitError, type GitProcess } from './git-process.ts'

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

type Entry = {
  key: string
  name: string
  child: GitProcess
  uses: number
  busyMs: number
  bytes: number
  idleSince: number
}

type Options = {
  git: Pick<Git, 'start'>
  /** How many idle processes are kept. */
  maxIdle?: number
  /** After how long an idle process ends. */
  idleMs?: number
}

// Memory and processor time of a process are limited, and add up.
const maxUses = 200
const maxBusyMs = 5000
const maxBytes = 16 * 1024 * 1024

/** For commands that repeat lines that they do not understand, such as `git diff-tree --stdin`. */
export function createReusedProcesses({
  git,
  maxIdle = 4,
  idleMs = 60_000,
}: Options): ReusedProcesses {
  // The one that was used last is the last one.
  const idle: Entry[] = []
  const ending = new Set<Promise<void>>()
  let isDisposed = false
  const timer = setInterval(endIdle, idleMs / 4)
  timer.unref()

  async function end({ child }: Entry): Promise<void> {
    const ended = Promise.resolve(child[Symbol.asyncDispose]())
    ending.add(ended)
    try {
      await ended
    } finally {
      ending.delete(ended)
    }
  }

  function endIdle(): void {
    const oldest = performance.now() - idleMs
    const isOver = ({ child, idleSince }: Entry) => idleSince < oldest || !child.isRunning()
    for (const entry of idle.filter(isOver)) {
      idle.splice(idle.indexOf(entry), 1)
      void end(entry)
    }
  }

  function takeIdle(key: string): Entry | undefined {
    const index = idle.findLastIndex((entry) => entry.key === key && entry.child.isRunning())
    return index === -1 ? undefined : idle.splice(index, 1)[0]
  }

  async function start(
    key: string,
    command: readonly string[],
    memoryMaxBytes: number,
  ): Promise<Entry> {
    const child = await git.start(command, { limits: { memoryMaxBytes } })
    const name = command.find((word) => !word.startsWith('-')) ?? ''
    return { key, name, child, uses: 0, busyMs: 0, bytes: 0, idleSince: 0 }
  }

  function keep(entry: Entry): void {
    entry.idleSince = performance.now()
    idle.push(entry)
    const [oldest] = idle
    if (idle.length > maxIdle && oldest) {
      idle.shift()
      void end(oldest)
    }
  }

  return {
    async acquire(command, { memoryMaxBytes, isNew = false }) {
      if (isDisposed) throw new Error('The processes are closed.')
      const key = [memoryMaxBytes, ...command].join('\0')
      const entry =
        (isNew ? undefined : takeIdle(key)) ?? (await start(key, command, memoryMaxBytes))
      return lend(entry, (isClean) => {
        const isWorn =
          entry.uses >= maxUses || entry.busyMs > maxBusyMs || entry.bytes > maxBytes || isDisposed
        if (isClean && !isWorn && entry.child.isRunning()) keep(entry)
        else return end(entry)
      })
    },

    async [Symbol.asyncDispose]() {
      isDisposed = true
      clearInterval(timer)
      for (const entry of idle.splice(0)) void end(entry)
      await Promise.all(ending)
    },
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
