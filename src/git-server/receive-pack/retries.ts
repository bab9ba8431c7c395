import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '../../base/log.ts'

const firstPauseMs = 1000
const mostPauseMs = 30_000

/** Does a work again that has failed, of one repository at a time each, until it succeeds or all is stopped. */
export function createRetries(work: (repositoryId: string) => Promise<void>, log: Log) {
  const trying = new Map<string, Promise<void>>()
  const stopping = new AbortController()

  async function tryUntilDone(repositoryId: string): Promise<void> {
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, mostPauseMs)) {
      // It keeps no program alive.
      await sleep(pauseMs, undefined, { ref: false, signal: stopping.signal }).catch(() => {})
      if (stopping.signal.aborted) return
      try {
        return await work(repositoryId)
      } catch (error) {
        log.warn({ err: error, repositoryId }, 'pushes could still not be finished')
      }
    }
  }

  return {
    /** Begins to try again; a repository for which that is being done already has nothing done twice. */
    later(repositoryId: string): void {
      if (trying.has(repositoryId) || stopping.signal.aborted) return
      const tried = tryUntilDone(repositoryId).finally(() => trying.delete(repositoryId))
      trying.set(repositoryId, tried)
    },

    /** Tries no more; nothing is at work when this returns. */
    async stop(): Promise<void> {
      stopping.abort()
      await Promise.all(trying.values())
    },
  }
}
