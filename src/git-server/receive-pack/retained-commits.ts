import { type Clock, dayMs } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { PlainSettings } from '../../config/settings.ts'
import type { Database } from '../../database/database.ts'
import { type Git, GitError } from '../../git/process/git-process.ts'
import { findObjects } from '../../git/refs/forced-updates.ts'
import type { RefMove } from '../../git/refs/move-refs.ts'
import { zeroId } from '../../git/refs/ref-name.ts'
import { listRefs, type PushedUpdate } from '../../git/refs/refs.ts'
import { isOverwriting, retainedRef, retainingPush } from '../../git/refs/retained-refs.ts'
import type { Directories } from '../../repositories/directories.ts'
import type { RepositoryHolds } from '../../repositories/repository-holds.ts'
import { moveHeldRefs } from './move-held-refs.ts'
import { clearKept, listKeeping, listWithExpired } from './push-store.ts'

export type RetainedCommits = ReturnType<typeof createRetainedCommits>

type Dependencies = {
  db: Database
  git: Git
  directories: Pick<Directories, 'pathOf'>
  repositoryHolds: Pick<RepositoryHolds, 'acquire'>
  settings: Pick<PlainSettings, 'undoDays'>
  clock: Clock
  log: Log
}

/** What pushes overwrote or deleted is kept for a while: hidden refs lead to it, so that no maintenance prunes it. */
export function createRetainedCommits(dependencies: Dependencies) {
  const { db, git, directories, settings, clock, log } = dependencies

  const move = (repositoryId: string, moves: RefMove[]) =>
    moveHeldRefs(dependencies, repositoryId, moves)

  /** All that is there is kept, should something be missing: a push must come to its end in any case. */
  async function keepWhatIsThere(repositoryId: string, moves: RefMove[]): Promise<boolean> {
    const names = moves.map(({ to }) => to)
    const found = await findObjects(git, directories.pathOf(repositoryId), names)
    const possible = moves.filter(({ to }) => found.has(to))
    if (possible.length === moves.length) return false
    if (possible.length > 0) await move(repositoryId, possible)
    return true
  }

  // Whatever no push is known to keep goes, so that nothing is left of a backup or a crash, either.
  async function letGo(repositoryId: string, now: number): Promise<void> {
    const refs = await listRefs(directories.pathOf(repositoryId))
    // Only now: what has been kept in between is of a push that is known by then.
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
    /** Keeps what a push has overwritten, however often it is told to; until when, null when there is nothing. */
    async keep(
      { id, repositoryId }: { id: string; repositoryId: string },
      updates: PushedUpdate[],
    ): Promise<number | null> {
      const overwriting = updates.filter(isOverwriting)
      if (overwriting.length === 0 || settings.undoDays === 0) return null
      const kept = new Map(overwriting.map((update) => [retainedRef(id, update), update.before]))
      const moves = [...kept].map(([ref, to]) => ({ ref, to }))
      await move(repositoryId, moves).catch(async (error) => {
        const isRefused = error instanceof GitError && error.isRefusal
        if (!isRefused || !(await keepWhatIsThere(repositoryId, moves))) throw error
      })
      return clock.now() + settings.undoDays * dayMs
    },

    /** Lets go of what was kept for long enough. */
    async expire(): Promise<void> {
      const now = clock.now()
      for (const repositoryId of await listWithExpired(db, now)) {
        await letGo(repositoryId, now).catch((error) =>
          log.error({ err: error, repositoryId }, 'what pushes overwrote could not be let go'),
        )
      }
    },
  }
}
