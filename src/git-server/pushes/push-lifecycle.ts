import type { RefUpdate } from '#git/refs/refs.ts'
import type { Push, PushAuthority } from '../push/push.ts'
import type { DefaultBranches } from './default-branches.ts'
import type { MakeVersions } from './make-versions.ts'

/**
 * The life of a push, from its authorization in git's hook to its events. With a local store it is recorded before git
 * moves the refs, and finalized afterwards; with a shared store it is one transaction.
 */
export type PushLifecycle = Omit<PushAuthority, 'awaitRuns' | 'requireBytesLeft'> & {
  /**
   * Authorizes and makes updates without a client's git, all or none. Returns false when they are made but will be
   * recorded later. Throws the Problems of a push, and UpdatesRefusedError.
   */
  apply: (push: Push, updates: RefUpdate[]) => Promise<boolean>
  defaultBranches: DefaultBranches
  /** Makes a version of a change of a commit of the repository. */
  makeVersion: MakeVersions['make']
  /** Finalizes or discards every unfinished push whose git has ended, in one repository or in all. */
  sweep: (repositoryId?: string) => Promise<void>
  /** Releases retained commits whose period is over. */
  expire: () => Promise<void>
  /** Waits until all pushes are finalized; one that fails is left to the next start of the server. */
  drain: () => Promise<void>
}

/** `moved` by another request just now, or a name that is a directory of another ref. */
type RefusalReason = 'moved' | 'name-conflict' | 'other'

/** Thrown when refs have changed, or cannot be changed; nothing was changed then. */
export class UpdatesRefusedError extends Error {
  override readonly name = 'UpdatesRefusedError'
  readonly reason: RefusalReason

  constructor(message: string, { reason, cause }: { reason: RefusalReason; cause?: unknown }) {
    super(message, { cause })
    this.reason = reason
  }
}
