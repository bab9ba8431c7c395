import { type Clock, dayMs } from '#base/clock.ts'
import type { Log } from '#base/log.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import { findObjects } from '#git/objects/object-stream.ts'
import { type Git, GitError } from '#git/process/git-process.ts'
import type { RefMove } from '#git/refs/move-refs.ts'
import { retainedRef, retainingPush, zeroId } from '#git/refs/ref-name.ts'
import { isOverwriting, listRefs, type PushedUpdate } from '#git/refs/refs.ts'
import type { Directories } from '#repositories/directories.ts'
import type { RepositoryHolds } from '#repositories/repository-holds.ts'
import { moveHeldRefs } from './move-held-refs.ts'
import { clearKept, listKeeping, listWithExpired } from './push-store.ts'

/** Retains the commits that pushes overwrote or deleted: hidden refs point to them, so that maintenance does not prune them. */
export type RetainedCommits = {
  /** Retains what a push has overwritten. Idempotent. Returns until when, or null when there is nothing to retain. */
  retain: (
    push: { id: string; repositoryId: string },
    updates: PushedUpdate[],
  ) => Promise<number | null>
  /** Releases the commits whose retention period is over. */
  expire: () => Promise<void>
}

type Dependencies = {
  db: Database
  git: Git
  directories: Pick<Directories, 'pathOf'>
  repositoryHolds: Pick<RepositoryHolds, 'acquire'>
  settings: Pick<PlainSettings, 'undoDays'>
  clock: Clock
  log: Log
}

export function createRetainedCommits(dependencies: Dependencies): RetainedCommits {
  const { db, git, directories, settings, clock, log } = dependencies

  const move = (repositoryId: string, moves: RefMove[]) =>
    moveHeldRefs(dependencies, repositoryId, moves)

  /** Retains what exists when some objects are missing: a push must be finalized in any case. False if none is missing. */
  async function retainExisting(repositoryId: string, moves: RefMove[]): Promise<boolean> {
    const names = moves.map(({ to }) => to)
    const found = await findObjects(git, directories.pathOf(repositoryId), names)
    const possible = moves.filter(({ to }) => found.has(to))
    if (possible.length === moves.length) return false
    if (possible.length > 0) await move(repositoryId, possible)
    return true
  }

  // Removes every retaining ref without a push that needs it, so those of a restored backup or a crash go, too.
  async function releaseExpired(repositoryId: string, now: number): Promise<void> {
    const refs = await listRefs(directories.pathOf(repositoryId))
    // Read after the refs: a push that retained something meanwhile is then listed.
    const keeping = new Set(await listKeeping(db, repositoryId, now))
    const moves = refs
      .filter((ref) => {
        const push = retainingPush(ref)
        return push !== undefined && !keeping.has(push)
      })
      .map((ref) => ({ ref, to: zeroId }))
    if (moves.length > 0) await move(repositoryId, moves)
    await clearKept(db, repositoryId, now)
  }

  return {
    async retain({ id, repositoryId }, updates) {
      const overwriting = updates.filter(isOverwriting)
      if (overwriting.length === 0 || settings.undoDays === 0) return null
      const kept = new Map(overwriting.map((update) => [retainedRef(id, update), update.before]))
      const moves = [...kept].map(([ref, to]) => ({ ref, to }))
      await move(repositoryId, moves).catch(async (error) => {
        const isRefused = error instanceof GitError && error.isRefusal
        if (!isRefused || !(await retainExisting(repositoryId, moves))) throw error
      })
      return clock.now() + settings.undoDays * dayMs
    },

    async expire() {
      const now = clock.now()
      for (const repositoryId of await listWithExpired(db, now)) {
        await releaseExpired(repositoryId, now).catch((error) =>
          log.error({ err: error, repositoryId }, 'expired commits not released'),
        )
      }
    },
  }
}
