import { availableParallelism } from 'node:os'
import { createTurns, type Turns } from '../concurrency/fair-limiter.ts'
import type { PlainSettings } from '../config/settings.ts'

/** Whose turn it is to fetch, and whose to push, over both doors together. */
export type GitTurns = Record<TurnKind, Pick<Turns, 'take'>>

export type TurnKind = 'fetch' | 'push'

const fetchesPerCore = 4

export function createGitTurns(settings: PlainSettings): Record<TurnKind, Turns> {
  const queue = { waiting: settings.gitWaiting, waitMs: settings.gitWaitSeconds * 1000 }
  return {
    fetch: createTurns({
      overall: settings.fetchesAtOnce ?? fetchesPerCore * availableParallelism(),
      perKey: settings.repositoryFetchesAtOnce,
      ...queue,
    }),
    push: createTurns({
      overall: settings.pushesAtOnce,
      perKey: settings.repositoryPushesAtOnce,
      ...queue,
    }),
  }
}
