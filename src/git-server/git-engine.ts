import type { Log } from '../base/log.ts'
import type { FreeSpace } from '../config/free-space.ts'
import type { PlainSettings } from '../config/settings.ts'
import type { Door } from '../database/schema.ts'
import type { Git } from '../git/git-process.ts'
import type { RefSnapshots } from '../git/ref-snapshots.ts'
import type { Tidying } from '../repositories/tidying.ts'
import type { FetchCache } from './fetch-cache.ts'
import { createFetches } from './fetches.ts'
import type { GitTurns } from './git-turns.ts'
import { createOffers } from './offers.ts'
import { createMeasure, type Operation } from './operations.ts'
import type { Pushes } from './pushes.ts'
import { createReceiving } from './receiving.ts'

export type GitEngine = ReturnType<typeof createGitEngine>

type Dependencies = {
  git: Git
  snapshots: RefSnapshots
  pushes: Pick<Pushes, 'judge' | 'finish'>
  /** Which way its clients come. */
  door: Door
  tidying: Pick<Tidying, 'enter'>
  turns: GitTurns
  fetchCache: Pick<FetchCache, 'answer'>
  freeSpace: FreeSpace
  settings: PlainSettings
  log: Log
  /** Called when an operation has ended. */
  onOperation: (operation: Operation) => void
}

/**
 * What Git's smart protocol does with a repository that was opened, whichever way its client came:
 * https://git-scm.com/docs/pack-protocol and https://git-scm.com/docs/protocol-v2
 */
export function createGitEngine(dependencies: Dependencies) {
  const measure = createMeasure(dependencies.onOperation)
  const stallMs = dependencies.settings.gitStallSeconds * 1000
  const parts = { ...dependencies, measure, stallMs }
  const { offer, offerAtHand, list } = createOffers(parts)
  return {
    ...createFetches({ ...parts, offerAtHand, list }),
    offer: measure('offer', offer),
    push: measure('push', createReceiving(parts).push),
  }
}
