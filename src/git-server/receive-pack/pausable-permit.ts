import type { GitLimiters } from '../requests/git-limiters.ts'

/** A permit of a limiter that others may have while its holder waits. */
export type PausablePermit = Disposable & {
  /** Acquires the permit, unless that was done before. Throws `git_busy` when it takes too long. */
  acquire: () => Promise<void>
  /** Releases the permit during some work, and acquires it again afterwards. Throws `git_busy` when that takes too long. */
  pause: (work: () => Promise<void>, signal: AbortSignal) => Promise<void>
}

export function createPausablePermit(
  limiter: GitLimiters['push'],
  keys: string[],
  signal: AbortSignal,
): PausablePermit {
  let held: Disposable | undefined
  let acquired: Promise<void> | undefined
  let isDisposed = false

  async function hold(until: AbortSignal): Promise<void> {
    held = await limiter.acquire(keys, until)
    // The request may have ended meanwhile.
    if (isDisposed) release()
  }

  function release(): void {
    held?.[Symbol.dispose]()
    held = undefined
  }

  return {
    acquire() {
      acquired ??= hold(signal)
      return acquired
    },

    async pause(work, untilGone) {
      release()
      await work()
      await hold(untilGone)
    },

    [Symbol.dispose]() {
      isDisposed = true
      release()
    },
  }
}
