import { sql } from 'kysely'
import { prepared } from '#database/prepared.ts'
import type { Db, RefRow, RepositoryState } from '#database/schema.ts'
import type { RefUpdate } from '#git/refs/refs.ts'
import { directoriesOf } from './decide-updates.ts'

/** What orders the changes of a repository: a change of refs or packs locks its row. */
export type LockedRepository = {
  name: string
  version: number
  pruneEpoch: number
  head: string
  headChosen: number
  /** How many locks of Git LFS it has. */
  lfsLocks: number
}

/** The default branch of a repository that was created without one. */
export const firstHead = 'main'
// Beyond this, reading all refs is faster than looking for each conflict.
const maxLookUps = 50
// PostgreSQL allows 65,535 parameters in a statement.
const rowsPerStatement = 5000

const lockById = prepared((tx, by: { id: string; state: RepositoryState }) =>
  tx
    .selectFrom('repositories')
    .select(['name', 'version', 'pruneEpoch', 'head', 'headChosen', 'lfsLocks'])
    .where('id', '=', by.id)
    .where('state', '=', by.state)
    .forUpdate(),
)

/** Locks a repository until the end of the transaction; undefined when it is gone or not in a state. */
export async function lockRepository(
  tx: Db,
  id: string,
  state: RepositoryState = 'ready',
): Promise<LockedRepository | undefined> {
  const [row] = await lockById(tx, { id, state })
  return row && { ...row, head: row.head ?? firstHead }
}

/** Reads the values of some refs and one more, and of those that the names of the updates conflict with. */
export async function readConcerned(
  db: Db,
  repositoryId: string,
  { updates, other }: { updates: RefUpdate[]; other: string },
): Promise<Map<string, string>> {
  let query = db
    .selectFrom('refs')
    .select(['name', 'objectId'])
    .where('repositoryId', '=', repositoryId)
  if (updates.length <= maxLookUps) {
    const names = updates.map(({ ref }) => ref)
    const exact = [...new Set([...names, ...names.flatMap(directoriesOf), other])]
    query = query.where((is) =>
      is.or([
        is('name', 'in', exact),
        // The names that begin with `<ref>/`: the character after the slash is `0`.
        ...names.map((ref) => is.and([is('name', '>', `${ref}/`), is('name', '<', `${ref}0`)])),
      ]),
    )
  }
  const rows = await query.execute()
  return new Map(rows.map(({ name, objectId }) => [name, objectId]))
}

/** Reads the values of all refs that begin with a prefix. */
export async function readRefsUnder(
  db: Db,
  repositoryId: string,
  prefix: string,
): Promise<Map<string, string>> {
  const rows = await db
    .selectFrom('refs')
    .select(['name', 'objectId'])
    .where('repositoryId', '=', repositoryId)
    .where(sql<boolean>`starts_with(name, ${prefix})`)
    .execute()
  return new Map(rows.map(({ name, objectId }) => [name, objectId]))
}

export async function hasRef(db: Db, repositoryId: string, name: string): Promise<boolean> {
  const row = await db
    .selectFrom('refs')
    .select('name')
    .where('repositoryId', '=', repositoryId)
    .where('name', '=', name)
    .executeTakeFirst()
  return row !== undefined
}

export async function saveRefs(db: Db, rows: RefRow[]): Promise<void> {
  for (const some of chunks(rows)) {
    await db
      .insertInto('refs')
      .values(some)
      .onConflict((conflict) =>
        conflict.columns(['repositoryId', 'name']).doUpdateSet((is) => ({
          objectId: is.ref('excluded.objectId'),
          peeledId: is.ref('excluded.peeledId'),
        })),
      )
      .execute()
  }
}

export async function deleteRefs(db: Db, repositoryId: string, names: string[]): Promise<void> {
  for (const some of chunks(names)) {
    await db
      .deleteFrom('refs')
      .where('repositoryId', '=', repositoryId)
      .where('name', 'in', some)
      .execute()
  }
}

/** Records that refs, packs or the default branch have changed, and when a push was received that did so; returns the new version. */
export async function raiseVersion(
  tx: Db,
  repositoryId: string,
  { version, head, pruneEpoch, pushedAt }: LockedRepository & { pushedAt?: number | undefined },
): Promise<number> {
  const next = version + 1
  await tx
    .updateTable('repositories')
    .set({ version: next, head, pruneEpoch, ...(pushedAt !== undefined && { pushedAt }) })
    .where('id', '=', repositoryId)
    .execute()
  return next
}

function* chunks<T>(all: T[]): Generator<T[]> {
  for (let start = 0; start < all.length; start += rowsPerStatement)
    yield all.slice(start, start + rowsPerStatement)
}
