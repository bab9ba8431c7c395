import type { Database } from '#database/database.ts'
import type { RepositoryState } from '#database/schema.ts'
import { hasRefs, hasReftable } from '#git/refs/refs.ts'
import { lockState } from './deleted-repository-store.ts'
import type { Directories } from './directories/directories.ts'
import { listRepositoryStates } from './repository-store.ts'
import type { Store } from './store/store.ts'

export type Reconciled = { quarantined: string[]; missing: string[]; unreadable: string[] }

/**
 * Reconciles directories with rows. Those of deleted repositories are moved out of their place, and those of restored
 * ones back. A directory without a row is removed when it is left from a creation or deletion that a crash interrupted;
 * any other is quarantined, because it may be the only copy of a repository. Returns the quarantine paths, the ids of rows
 * without a directory, and the paths of repositories whose refs cannot be read because of their format.
 */
export async function reconcileDirectories(
  db: Database,
  directories: Directories,
): Promise<Reconciled> {
  const states = await listRepositoryStates(db)
  const idsOf = (...wanted: RepositoryState[]) =>
    new Set(states.filter(({ state }) => wanted.includes(state)).map(({ id }) => id))
  const rows = idsOf('ready')
  const deleted = idsOf('deleted', 'purging')
  const [inPlace, inDeleted] = await listBoth(directories)
  for (const id of inPlace.intersection(deleted)) await directories.moveToDeleted(id)
  for (const id of inDeleted.intersection(rows)) await directories.moveFromDeleted(id)
  const present = inPlace.union(inDeleted)
  const quarantined: string[] = []
  for (const id of present.difference(rows).difference(deleted).difference(idsOf('importing'))) {
    const path = inPlace.has(id) ? directories.pathOf(id) : directories.deletedPathOf(id)
    const isLeftover = (await directories.isMarkedForDeletion(id)) || !(await hasRefs(path, 'any'))
    if (isLeftover) await directories.remove(id)
    else quarantined.push(await directories.quarantine(id))
  }
  for (const id of present.intersection(rows)) await directories.unmarkForDeletion(id)
  const unreadable = [...inPlace].map(directories.pathOf).filter(hasReftable)
  return { quarantined, missing: [...rows.difference(present)], unreadable }
}

async function listBoth(directories: Directories): Promise<[Set<string>, Set<string>]> {
  return [new Set(await directories.list()), new Set(await directories.listDeleted())]
}

/** Moves the directory of a repository to where its row says that it is. */
export function placeDirectory(
  db: Database,
  directories: Pick<Directories, 'moveToDeleted' | 'moveFromDeleted'>,
  id: string,
): Promise<void> {
  // The lock keeps other deletions and restorations away.
  return db.transaction().execute(async (tx) => {
    const state = await lockState(tx, id)
    if (state === 'deleted') await directories.moveToDeleted(id)
    if (state === 'ready') await directories.moveFromDeleted(id)
  })
}

/** Removes directories of repositories that another node has deleted: they are caches. */
export async function removeUnknown(
  db: Database,
  store: Pick<Store, 'remove'>,
  directories: Pick<Directories, 'list'>,
): Promise<Reconciled> {
  const states = await listRepositoryStates(db)
  const used = states.filter(({ state }) => state === 'ready' || state === 'importing')
  const rows = new Set(used.map(({ id }) => id))
  for (const id of await directories.list()) if (!rows.has(id)) await store.remove(id)
  return { quarantined: [], missing: [], unreadable: [] }
}
