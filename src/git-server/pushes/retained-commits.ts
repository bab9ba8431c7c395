import { type Clock, dayMs } from '#base/clock.ts'
import type { Log } from '#base/log.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import type { Db } from '#database/schema.ts'
import { findObjects } from '#git/objects/object-stream.ts'
import { type Git, GitError } from '#git/process/git-process.ts'
import { moveRefs, type RefMove } from '#git/refs/move-refs.ts'
import { retainedRef, retainedRefs, retainingPush, zeroId } from '#git/refs/ref-name.ts'
import { isOverwriting, listRefs, type PushedUpdate } from '#git/refs/refs.ts'
import type { Directories } from '#repositories/directories/directories.ts'
import type { RepositoryHolds } from '#repositories/repository-holds.ts'
import {
  deleteRefs,
  lockRepository,
  raiseVersion,
  readRefsUnder,
} from '#repositories/store/ref-store.ts'
import type { SharedChanges } from '#repositories/store/store.ts'
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

type Parts = {
  settings: Pick<PlainSettings, 'undoDays'>
  clock: Clock
  log: Log
}

type Dependencies = Parts & {
  db: Database
  git: Git
  directories: Pick<Directories, 'pathOf'>
  repositoryHolds: Pick<RepositoryHolds, 'acquire'>
}

export function createRetainedCommits(dependencies: Dependencies): RetainedCommits {
  const { db, git, directories, clock } = dependencies
  const { refsFor, until, expire } = createRetention(dependencies, db, releaseExpired)
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
    expire,

    async retain({ id, repositoryId }, updates) {
      const moves = [...refsFor(id, updates)].map(([ref, to]) => ({ ref, to }))
      if (moves.length === 0) return null
      await move(repositoryId, moves).catch(async (error) => {
        const isRefused = error instanceof GitError && error.isRefusal
        if (!isRefused || !(await retainExisting(repositoryId, moves))) throw error
      })
      return until(updates, clock.now())
    },
  }
}

/** Retains overwritten commits in the transactions of a shared store. */
export function createSharedRetention({
  shared: { db, transaction },
  ...parts
}: Parts & { shared: Pick<SharedChanges, 'db' | 'transaction'> }) {
  return createRetention(parts, db, (repositoryId, now) =>
    transaction(repositoryId, async (tx) => {
      const repository = await lockRepository(tx, repositoryId)
      if (!repository) return
      const keeping = new Set(await listKeeping(tx, repositoryId, now))
      const refs = await readRefsUnder(tx, repositoryId, retainedRefs)
      const names = [...refs.keys()].filter((ref) => !keeping.has(retainingPush(ref) ?? ''))
      await deleteRefs(tx, repositoryId, names)
      await clearKept(tx, repositoryId, now)
      await raiseVersion(tx, repositoryId, repository)
    }),
  )
}

function createRetention(
  { settings, clock, log }: Parts,
  db: Db,
  releaseExpired: (repositoryId: string, now: number) => Promise<void>,
) {
  const isRetaining = (update: PushedUpdate) => settings.undoDays > 0 && isOverwriting(update)
  return {
    /** The hidden refs, with their values, that retain what a push overwrites. */
    refsFor: (pushId: string, updates: PushedUpdate[]): Map<string, string> =>
      new Map(
        updates.filter(isRetaining).map((update) => [retainedRef(pushId, update), update.before]),
      ),

    /** Until when the commits are retained that updates overwrite; null when there are none. */
    until: (updates: PushedUpdate[], now: number): number | null =>
      updates.some(isRetaining) ? now + settings.undoDays * dayMs : null,

    /** Releases the commits whose retention period is over. */
    async expire(): Promise<void> {
      const now = clock.now()
      for (const repositoryId of await listWithExpired(db, now)) {
        await releaseExpired(repositoryId, now).catch((error) =>
          log.error({ err: error, repositoryId }, 'expired commits not released'),
        )
      }
    },
  }
}

/**
 * Moves refs under a repository hold: clean-up must not remove the locks of this git, and must have removed those of
 * killed ones. Throws a GitError when git refuses.
 */
export async function moveHeldRefs(
  {
    git,
    directories,
    repositoryHolds,
  }: Pick<Dependencies, 'git' | 'directories' | 'repositoryHolds'>,
  repositoryId: string,
  moves: RefMove[],
): Promise<void> {
  await using hold = await repositoryHolds.acquire(repositoryId)
  const directory = directories.pathOf(repositoryId)
  await moveRefs(git, { directory, watch: hold.watch }, moves)
}
