import type { Log } from '../base/log.ts'
import type { FreeSpace } from '../config/free-space.ts'
import type { PlainSettings } from '../config/settings.ts'
import type { Via } from '../database/schema.ts'
import type { Git } from '../git/process/git-process.ts'
import type { RefCache } from '../git/refs/ref-cache.ts'
import type { RepositoryHolds } from '../repositories/repository-holds.ts'
import type { Pushes } from './receive-pack/pushes.ts'
import { createReceivePack } from './receive-pack/receive-pack.ts'
import type { GitLimiters } from './requests/git-limiters.ts'
import { createMeasure, type Operation } from './requests/operations.ts'
import { createAdvertiser } from './upload-pack/advertise-refs.ts'
import type { ResponseCache } from './upload-pack/response-cache.ts'
import { createUploadPack } from './upload-pack/upload-pack.ts'

export type GitEngine = ReturnType<typeof createGitEngine>

type Dependencies = {
  git: Git
  refCache: RefCache
  pushes: Pick<Pushes, 'authorize' | 'finalize'>
  /** The transport that it serves. */
  via: Via
  repositoryHolds: Pick<RepositoryHolds, 'acquire'>
  limiters: GitLimiters
  responseCache: Pick<ResponseCache, 'fetch'>
  freeSpace: FreeSpace
  settings: PlainSettings
  log: Log
  /** Called when an operation has ended. */
  onOperation: (operation: Operation) => void
}

/**
 * Serves Git's smart protocol for an opened repository, independent of the transport:
 * https://git-scm.com/docs/pack-protocol and https://git-scm.com/docs/protocol-v2
 */
export function createGitEngine(dependencies: Dependencies) {
  const measure = createMeasure(dependencies.onOperation)
  const stallMs = dependencies.settings.gitStallSeconds * 1000
  const parts = { ...dependencies, measure, stallMs }
  const { advertise, advertiseFromCache, list } = createAdvertiser(parts)
  return {
    ...createUploadPack({ ...parts, advertiseFromCache, list }),
    advertise: measure('offer', advertise),
    push: measure('push', createReceivePack(parts).push),
  }
}
