import { type FileHandle, open } from 'node:fs/promises'

/** Makes the commits to a SQLite database durable. */
export type WalFlush = {
  /** Flushes once a commit is done, if it succeeds. Runs from the call on. Rejects for good once a flush has failed. */
  run: (commit: Promise<unknown>) => Promise<void>
  isRunning: () => boolean
  /** Resolves when the running flush ends. */
  ended: () => Promise<void>
  close: () => Promise<void>
}

/** For a database that is only read. */
export const noFlush: WalFlush = {
  run: async () => {},
  isRunning: () => false,
  ended: async () => {},
  close: async () => {},
}

/**
 * Flushes a write-ahead log with fdatasync(2) in a thread. SQLite itself would do so within the commit, while the event
 * loop waits: some milliseconds on a busy disk.
 */
export function createWalFlush(path: string): WalFlush {
  let file: FileHandle | undefined
  let running: Promise<void> | undefined
  let failure: Error | undefined

  async function flush(): Promise<void> {
    try {
      // The log exists after the first commit, and as long as the database is open.
      file ??= await open(path)
      await file.datasync()
    } catch (error) {
      // The kernel reports a failure once, and then takes the lost bytes for written.
      failure = new Error(`${path} cannot be flushed.`, { cause: error })
    }
  }

  return {
    async run(commit) {
      const isDone = commit.then(
        () => true,
        () => false,
      )
      running = isDone.then((done) => (done && !failure ? flush() : undefined))
      await running
      running = undefined
      await commit
      if (failure) throw failure
    },

    isRunning: () => running !== undefined,
    ended: async () => running,
    close: async () => file?.close(),
  }
}
