import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '../../base/log.ts'

const firstPauseMs = 1000
const maxPauseMs = 30_000

/** Retries failed work with backoff, one attempt at a time for each repository, until it succeeds or is stopped. */
export function createRetries(work: (repositoryId: string) => Promise<void>, log: Log) {
  const trying = new Map<string, Promise<void>>()
  const stopping = new AbortController()

  async function tryUntilDone(repositoryId: string): Promise<void> {
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, maxPauseMs)) {
      // The timer must not keep the program alive.
      await sleep(pauseMs, undefined, { ref: false, signal: stopping.signal }).catch(() => {})
      if (stopping.signal.aborted) return
      try {
        return await work(repositoryId)
      } catch (error) {
        log.warn({ err: error, repositoryId }, 'pushes not finalized; retrying')
      }
    }
  }

  return {
    /** Schedules retries for a repository, unless they are scheduled already. */
    schedule(repositoryId: string): void {
      if (trying.has(repositoryId) || stopping.signal.aborted) return
      const tried = tryUntilDone(repositoryId).finally(() => trying.delete(repositoryId))
      trying.set(repositoryId, tried)
    },

    /** Stops all retries and waits for running attempts. */
    async stop(): Promise<void> {
      stopping.abort()
      await Promise.all(trying.values())
    },
  }
}
