import { availableParallelism } from 'node:os'
import { createFairLimiter, type FairLimiter } from '#base/concurrency/fair-limiter.ts'
import type { PlainSettings } from '#config/settings.ts'

/** Limits concurrent fetches and pushes, over both transports together. The last key is that of the repository. */
export type GitLimiters = Record<LimiterKind, Pick<FairLimiter, 'acquire'>>

export type LimiterKind = 'fetch' | 'push'

const fetchesPerCore = 4

/** `openAgain` is called for the repository of each permit: its directory may have been evicted during the wait. */
export function createGitLimiters(
  settings: PlainSettings,
  openAgain: (repositoryId: string) => Promise<unknown>,
): Record<LimiterKind, FairLimiter> {
  const queue = { waiting: settings.gitWaiting, waitMs: settings.gitWaitSeconds * 1000 }

  function createLimiter(limits: Parameters<typeof createFairLimiter>[0]): FairLimiter {
    const limiter = createFairLimiter(limits)
    return {
      ...limiter,
      async acquire(keys, signal) {
        const permit = await limiter.acquire(keys, signal)
        try {
          await openAgain(keys.at(-1) ?? '')
          return permit
        } catch (error) {
          permit[Symbol.dispose]()
          throw error
        }
      },
    }
  }

  return {
    fetch: createLimiter({
      overall: settings.maxConcurrentFetches ?? fetchesPerCore * availableParallelism(),
      perKey: settings.maxConcurrentFetchesPerRepository,
      ...queue,
    }),
    push: createLimiter({
      overall: settings.maxConcurrentPushes,
      perKey: settings.maxConcurrentPushesPerRepository,
      ...queue,
    }),
  }
}
