import { setTimeout as sleep } from 'node:timers/promises'
import { createBackoff } from '#base/concurrency/backoff.ts'
import { createSingleFlight } from '#base/concurrency/single-flight.ts'
import { createTaskGroup } from '#base/concurrency/task-group.ts'
import type { Log } from '#base/log.ts'

const pauses = { firstMs: 1000, maxMs: 30_000 }

/** Retries failed work with backoff, one attempt at a time for each repository, until it succeeds or is stopped. */
export function createRetries(work: (repositoryId: string) => Promise<void>, log: Log) {
  const share = createSingleFlight<void>()
  const retrying = createTaskGroup()
  const stopping = new AbortController()
  const { signal } = stopping

  async function retry(repositoryId: string): Promise<void> {
    const backoff = createBackoff(pauses)
    for (;;) {
      // The timer must not keep the program alive.
      await sleep(backoff.nextMs(), undefined, { ref: false, signal }).catch(() => {})
      if (signal.aborted) return
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
      if (!signal.aborted) void retrying.add(share(repositoryId, () => retry(repositoryId)))
    },

    /** Stops all retries and waits for running attempts. */
    async stop(): Promise<void> {
      stopping.abort()
      await retrying.settled()
    },
  }
}
