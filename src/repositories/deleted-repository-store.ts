import type { Role } from '#access/roles.ts'
import type { PageRequest } from '#base/list-all.ts'
import { hasRowLocks } from '#database/row-locks.ts'
import type { Db, RepositoryRow, RepositoryState } from '#database/schema.ts'
import { changesOfName } from './repository-store.ts'
import { roleOfUser } from './role-store.ts'

/** Selects all deleted repositories, or those that a username owned or had the role `admin` in, limited to some ids. */
type DeletedViewer = 'all' | { username: string; within?: string[] | undefined }

/** A deleted repository that can be restored. */
export type DeletedRow = RepositoryRow & { deletedAt: number }

/** Marks a repository deleted, which frees its name; false when it is not ready. */
export async function markDeleted(db: Db, id: string, now: number): Promise<boolean> {
  const row = await db
    .updateTable('repositories')
    .set({ state: 'deleted', deletedAt: now, nameKey: keyOfDeleted(id) })
    .where('id', '=', id)
    .where('state', '=', 'ready')
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

// No name has two slashes.
function keyOfDeleted(id: string): string {
  return `deleted//${id}`
}

/** Makes a deleted repository ready again; undefined when it is not deleted. Throws the database's error when the name is taken. */
export async function markRestored(
  tx: Db,
  { id, ...former }: Pick<RepositoryRow, 'id' | 'namespaceId'>,
  named: { name: string; namespaceId: string | null },
): Promise<RepositoryRow | undefined> {
  const changes = await changesOfName(tx, former, named)
  return tx
    .updateTable('repositories')
    .set({ state: 'ready', deletedAt: null, ...changes })
    .where('id', '=', id)
    .where('state', '=', 'deleted')
    .returningAll()
    .executeTakeFirst()
}

/** Marks a deleted repository for its purge: it can no longer be restored. False when it is not deleted. */
export async function markPurging(db: Db, id: string): Promise<boolean> {
  const row = await db
    .updateTable('repositories')
    .set({ state: 'purging' })
    .where('id', '=', id)
    .where('state', '=', 'deleted')
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

/**
 * A deleted repository with the role of a username in it; undefined when there is none with this id, or it is being purged.
 */
export async function findDeleted(
  db: Db,
  id: string,
  username: string,
): Promise<(DeletedRow & { role: Role | undefined }) | undefined> {
  const row = await selectDeleted(db)
    .select(roleOfUser(username).as('role'))
    .where('id', '=', id)
    .executeTakeFirst()
  return row && { ...row, role: row.role ?? undefined }
}

/** Deleted repositories after an id, in the order of their creation. */
export function listDeleted(
  db: Db,
  viewer: DeletedViewer,
  { after, limit }: PageRequest,
): Promise<DeletedRow[]> {
  let query = selectDeleted(db).where('id', '>', after).orderBy('id').limit(limit)
  if (viewer !== 'all') {
    const { username, within } = viewer
    query = query.where((is) =>
      is.or([
        is.and([
          is('ownerUsername', '=', username),
          is.or([is('namespaceId', 'is', null), is(roleOfUser(username), 'is not', null)]),
        ]),
        is(roleOfUser(username), '=', 'admin'),
      ]),
    )
    if (within) query = query.where('id', 'in', within)
  }
  return query.execute()
}

/** The deleted repositories of before a time, the earliest deletion first. */
export function listDeletedBefore(db: Db, time: number, limit: number): Promise<DeletedRow[]> {
  return selectDeleted(db)
    .where('deletedAt', '<=', time)
    .orderBy('deletedAt')
    .orderBy('id')
    .limit(limit)
    .execute()
}

/** The repositories whose purge has begun. */
export function listPurging(db: Db): Promise<RepositoryRow[]> {
  return db
    .selectFrom('repositories')
    .selectAll()
    .where('deletedAt', 'is not', null)
    .where('state', '=', 'purging')
    .execute()
}

/** The state of a repository, whose row is locked until the transaction ends. */
export async function lockState(tx: Db, id: string): Promise<RepositoryState | undefined> {
  const row = await tx
    .selectFrom('repositories')
    .select('state')
    .where('id', '=', id)
    .$if(hasRowLocks(tx), (rows) => rows.forUpdate())
    .executeTakeFirst()
  return row?.state
}

function selectDeleted(db: Db) {
  return db
    .selectFrom('repositories')
    .selectAll()
    .where('deletedAt', 'is not', null)
    .where('state', '=', 'deleted')
    .$narrowType<{ deletedAt: number }>()
}
