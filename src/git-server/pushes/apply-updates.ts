import type { FaultPoint } from '#base/fault-points.ts'
import { type Git, GitError } from '#git/process/git-process.ts'
import { moveRefs } from '#git/refs/move-refs.ts'
import type { RefUpdate } from '#git/refs/refs.ts'
import type { RepositoryHolds } from '#repositories/repository-holds.ts'
import type { Push } from '../push/push.ts'
import { type PushLifecycle, UpdatesRefusedError } from './push-lifecycle.ts'

type Dependencies = Pick<PushLifecycle, 'authorize' | 'finalize'> & {
  git: Git
  repositoryHolds: Pick<RepositoryHolds, 'acquire'>
  /** Deletes the record of a push that git has refused as a whole. */
  discard: (push: Push) => Promise<void>
  faultPoint: FaultPoint
}

/** Phrases of git's messages about a ref whose name is the directory of another ref. */
const nameConflicts = [' exists; cannot create ', ' at the same time', 'there are still refs']

/** Makes updates with a git of the server's own: see PushLifecycle. */
export function createApplyUpdates(dependencies: Dependencies): PushLifecycle['apply'] {
  const { git, repositoryHolds, authorize, finalize, discard, faultPoint } = dependencies

  /** Moves refs together; returns git's error when it has refused that. */
  async function move(push: Push, updates: RefUpdate[]): Promise<GitError | undefined> {
    const { id, path } = push.repository
    await using hold = await repositoryHolds.acquire(id)
    await authorize(push, updates)
    const moves = updates.map(({ ref, before, after }) => ({ ref, from: before, to: after }))
    try {
      await moveRefs(git, { directory: path, watch: hold.watch }, moves)
      push.refused = []
      return undefined
    } catch (error) {
      // EEXIST: a ref is locked by another process, which may have moved it by now.
      const isUntouched = error instanceof GitError && (error.isRefusal || error.code === 'EEXIST')
      if (!isUntouched) throw error
      return error
    }
  }

  return async (push, updates) => {
    let refusal: GitError | undefined
    let isFinished = true
    try {
      refusal = await move(push, updates)
      if (!refusal) faultPoint('undo.moved')
    } finally {
      // After the hold is released: the leftovers of a killed git are then removed.
      if (refusal) await discard(push)
      else isFinished = await finalize(push)
    }
    if (!refusal) return isFinished
    const { message } = refusal
    const isNameConflict = nameConflicts.some((words) => message.includes(words))
    throw new UpdatesRefusedError(message, { isNameConflict, cause: refusal })
  }
}
