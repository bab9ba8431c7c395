import { availableParallelism } from 'node:os'
import { createFairLimiter, type FairLimiter } from '#base/concurrency/fair-limiter.ts'
import type { PlainSettings } from '#config/settings.ts'

/** Limits concurrent fetches and pushes, over both transports together. */
export type GitLimiters = Record<LimiterKind, Pick<FairLimiter, 'acquire'>>

export type LimiterKind = 'fetch' | 'push'

const fetchesPerCore = 4

export function createGitLimiters(settings: PlainSettings): Record<LimiterKind, FairLimiter> {
  const queue = { waiting: settings.gitWaiting, waitMs: settings.gitWaitSeconds * 1000 }
  return {
    fetch: createFairLimiter({
      overall: settings.maxConcurrentFetches ?? fetchesPerCore * availableParallelism(),
      perKey: settings.maxConcurrentFetchesPerRepository,
      ...queue,
    }),
    push: createFairLimiter({
      overall: settings.maxConcurrentPushes,
      perKey: settings.maxConcurrentPushesPerRepository,
      ...queue,
    }),
  }
}
