import type { Database } from '../database/database.ts'
import type { RepositoryState } from '../database/schema.ts'
import { hasRefs } from '../git/refs/refs.ts'
import type { Store } from '../store/store.ts'
import type { Directories } from './directories.ts'
import { listRepositoryStates } from './repository-store.ts'

/**
 * Reconciles directories with rows. A directory without a row is removed when it is left from a creation or deletion
 * that a crash interrupted; any other is quarantined, because it may be the only copy of a repository. Returns the
 * quarantine paths, and the ids of rows without a directory.
 */
export async function reconcileDirectories(
  db: Database,
  directories: Directories,
): Promise<{ quarantined: string[]; missing: string[] }> {
  const states = await listRepositoryStates(db)
  const idsOf = (wanted: RepositoryState) =>
    states.filter(({ state }) => state === wanted).map(({ id }) => id)
  const rows = new Set(idsOf('ready'))
  const importing = new Set(idsOf('importing'))
  const present = new Set(await directories.list())
  const quarantined: string[] = []
  for (const id of present.difference(rows).difference(importing)) {
    const isLeftover =
      (await directories.isMarkedForDeletion(id)) || !(await hasRefs(directories.pathOf(id), 'any'))
    if (isLeftover) await directories.remove(id)
    else quarantined.push(await directories.quarantine(id))
  }
  for (const id of present.intersection(rows)) await directories.unmarkForDeletion(id)
  return { quarantined, missing: [...rows.difference(present)] }
}

/** Removes directories of repositories that another node has deleted: they are caches. */
export async function removeUnknown(
  db: Database,
  store: Pick<Store, 'remove'>,
  directories: Pick<Directories, 'list'>,
): Promise<{ quarantined: string[]; missing: string[] }> {
  const rows = new Set((await listRepositoryStates(db)).map(({ id }) => id))
  for (const id of await directories.list()) if (!rows.has(id)) await store.remove(id)
  return { quarantined: [], missing: [] }
}
