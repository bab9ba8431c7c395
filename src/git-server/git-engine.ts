import {
  createReceivePack,
  type ReceivePack,
  type ReceivePackParts,
} from './receive-pack/receive-pack.ts'
import type { GitLimiters } from './requests/git-limiters.ts'
import { createMeasure, type Operation } from './requests/operations.ts'
import {
  type CacheCounts,
  createUploadPack,
  type UploadPack,
  type UploadPackParts,
} from './upload-pack/upload-pack.ts'

/**
 * Git's smart protocol for an opened repository, independent of the transport:
 * https://git-scm.com/docs/pack-protocol and https://git-scm.com/docs/protocol-v2
 */
export type GitEngine = Omit<UploadPack, 'count'> & { push: ReceivePack; count: () => GitCounts }

/** The git processes and the caches of one process. */
export type GitCounts = CacheCounts & { processes: number }

type Dependencies = Omit<UploadPackParts, 'measure' | 'stallMs'> &
  Omit<ReceivePackParts, 'stallMs'> & {
    limiters: GitLimiters
    /** Called when an operation has ended. */
    onOperation: (operation: Operation) => void
  }

export function createGitEngine(dependencies: Dependencies): GitEngine {
  const { git, settings, onOperation } = dependencies
  const measure = createMeasure(onOperation)
  const stallMs = settings.gitStallSeconds * 1000
  const uploadPack = createUploadPack({ ...dependencies, stallMs, measure })
  const receivePack = createReceivePack({ ...dependencies, stallMs })
  return {
    ...uploadPack,
    push: measure('push', receivePack),
    count: () => ({ ...uploadPack.count(), processes: git.count() }),
  }
}
