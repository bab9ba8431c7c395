/** A process that serves one request after another. Disposing it ends it, also a second time. */
type PooledProcess = AsyncDisposable & { isRunning: () => boolean }

/** Keeps processes for later requests with the same key, until they have been idle for a while. */
export type ProcessPool<T> = AsyncDisposable & {
  /** Takes a process, or starts one; with `isNew` always. Throws when the pool is closed. */
  acquire: (key: string, start: () => Promise<T>, isNew?: boolean) => Lease<T>
  /** The number of processes. */
  count: () => number
}

type Lease<T> = {
  process: Promise<T>
  /** Keeps the process for other requests, or ends it. To be called once. */
  release: (isKept: boolean) => Promise<void> | undefined
}

type Options = {
  /** How many idle processes are kept. */
  maxIdle: number
  /** After how long an idle process ends. */
  idleMs?: number | undefined
  /** Whether a process serves several requests at a time. */
  isShared: boolean
}

type Entry<T> = {
  key: string
  started: Promise<T>
  /** Undefined until it has started. */
  process?: T
  users: number
  idleSince: number
}

const closers = new Set<(directory: string) => Promise<void>>()

/**
 * Ends the processes of all pools that read a repository, whose directory is in their keys: its files would take space as
 * long as they are open. One that serves a single request ends with that.
 */
export async function closeReadersOf(directory: string): Promise<void> {
  await Promise.all([...closers].map((close) => close(directory)))
}

/** Starting a git costs some 5 ms, reading a small object from one that runs 0.1 ms. */
export function createProcessPool<T extends PooledProcess>({
  maxIdle,
  idleMs = 60_000,
  isShared,
}: Options): ProcessPool<T> {
  // The process that was used last is the last one.
  const entries = new Set<Entry<T>>()
  const ending = new Set<Promise<void>>()
  let isDisposed = false
  const timer = setInterval(endIdle, idleMs / 4)
  timer.unref()
  closers.add(close)

  function add(key: string, start: () => Promise<T>): Entry<T> {
    const entry: Entry<T> = { key, started: start(), users: 0, idleSince: 0 }
    entry.started.then(
      (process) => {
        entry.process = process
      },
      // A failure is reported to those who use it.
      () => entries.delete(entry),
    )
    entries.add(entry)
    return entry
  }

  function find(key: string): Entry<T> | undefined {
    let found: Entry<T> | undefined
    for (const entry of entries) {
      const isFree = isShared || entry.users === 0
      if (entry.key === key && isFree && entry.process?.isRunning() !== false) found = entry
    }
    return found
  }

  function end(entry: Entry<T>): Promise<void> {
    entries.delete(entry)
    const ended = entry.started
      .then((process) => process[Symbol.asyncDispose]())
      .catch(() => {})
      .finally(() => ending.delete(ended))
    ending.add(ended)
    return ended
  }

  function endIdle(): void {
    const idle = [...entries].filter(({ users }) => users === 0).toReversed()
    const oldest = performance.now() - idleMs
    for (const [index, entry] of idle.entries()) {
      const isOver = entry.idleSince < oldest || entry.process?.isRunning() === false
      if (index >= maxIdle || isOver) void end(entry)
    }
  }

  async function close(directory: string): Promise<void> {
    for (const entry of [...entries].filter(({ key }) => key.includes(directory))) {
      if (isShared || entry.users === 0) void end(entry)
      else entries.delete(entry)
    }
    await Promise.all(ending)
  }

  return {
    acquire(key, start, isNew = false) {
      if (isDisposed) throw new Error('The pool of git processes is closed.')
      const entry = (isNew ? undefined : find(key)) ?? add(key, start)
      entry.users += 1
      return {
        process: entry.started,
        release(isKept) {
          entry.users -= 1
          entry.idleSince = performance.now()
          if (!isKept || isDisposed || !entries.delete(entry)) return end(entry)
          entries.add(entry)
          if (entries.size > maxIdle) endIdle()
          return undefined
        },
      }
    },

    count: () => entries.size,

    async [Symbol.asyncDispose]() {
      isDisposed = true
      closers.delete(close)
      clearInterval(timer)
      for (const entry of [...entries]) if (isShared || entry.users === 0) void end(entry)
      await Promise.all(ending)
    },
  }
}
