import type { GitLimiters } from '../requests/git-limiters.ts'

/** A permit of a limiter that others may have while its holder waits. */
export type PausablePermit = Disposable & {
  /** Releases the permit during some work, and acquires it again afterwards. Throws `git_busy` when that takes too long. */
  pause: (work: () => Promise<void>, signal: AbortSignal) => Promise<void>
}

export async function createPausablePermit(
  limiter: GitLimiters['push'],
  keys: string[],
  signal: AbortSignal,
): Promise<PausablePermit> {
  let held: Disposable | undefined = await limiter.acquire(keys, signal)
  let isDisposed = false

  function release(): void {
    held?.[Symbol.dispose]()
    held = undefined
  }

  return {
    async pause(work, untilGone) {
      release()
      await work()
      const acquired = await limiter.acquire(keys, untilGone)
      held = acquired
      // The request may have ended meanwhile.
      if (isDisposed) release()
    },

    [Symbol.dispose]() {
      isDisposed = true
      release()
    },
  }
}
