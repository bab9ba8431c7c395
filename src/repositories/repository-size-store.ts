import { hasRowLocks } from '#database/row-locks.ts'
import type { Db } from '#database/schema.ts'

/** The bytes that a repository takes, and those that its unfinished pushes are about to add. */
export async function findBytes(db: Db, repositoryId: string): Promise<number> {
  const row = await db
    .selectFrom('repositories')
    .select(['packBytes', 'lfsBytes'])
    .select((is) =>
      is
        .selectFrom('pushes')
        .select((push) => push.fn.sum<number | string | null>('bytes').as('bytes'))
        .where('finishedAt', 'is', null)
        .where('repositoryId', '=', repositoryId)
        .as('pushBytes'),
    )
    .where('id', '=', repositoryId)
    .executeTakeFirst()
  return (row?.packBytes ?? 0) + (row?.lfsBytes ?? 0) + Number(row?.pushBytes ?? 0)
}

/** Records the bytes of the packs of a repository, which are durable in the same transaction. */
export async function updatePackBytes(tx: Db, id: string, packBytes: number): Promise<void> {
  await tx.updateTable('repositories').set({ packBytes }).where('id', '=', id).execute()
}

/** The bytes of the packs of a repository, null when they were never measured; undefined unless it is ready. */
export async function findPackBytes(db: Db, id: string): Promise<number | null | undefined> {
  const row = await db
    .selectFrom('repositories')
    .select('packBytes')
    .where('id', '=', id)
    .where('state', '=', 'ready')
    .executeTakeFirst()
  return row?.packBytes
}

/** Replaces the bytes of the packs of a repository by measured ones, unless a push has added some, or is about to. */
export async function replacePackBytes(
  db: Db,
  id: string,
  { former, packBytes }: { former: number | null; packBytes: number },
): Promise<void> {
  await db
    .updateTable('repositories')
    .set({ packBytes })
    .where('id', '=', id)
    .where('packBytes', former === null ? 'is' : '=', former)
    .where((is) =>
      is.not(
        is.exists(
          is
            .selectFrom('pushes')
            .select('id')
            .where('finishedAt', 'is', null)
            .where('repositoryId', '=', id)
            .where('bytes', '>', 0),
        ),
      ),
    )
    .execute()
}

/** Repositories whose packs were never measured: those that are older than this. */
export async function listUnmeasured(db: Db, limit: number): Promise<string[]> {
  const rows = await db
    .selectFrom('repositories')
    .select('id')
    .where('packBytes', 'is', null)
    .where('state', '=', 'ready')
    .orderBy('id')
    .limit(limit)
    .execute()
  return rows.map(({ id }) => id)
}

/** Adds to the bytes of the LFS objects of a repository. */
export async function addLfsBytes(tx: Db, id: string, bytes: number): Promise<void> {
  await tx
    .updateTable('repositories')
    .set((is) => ({ lfsBytes: is('lfsBytes', '+', bytes) }))
    .where('id', '=', id)
    .execute()
}

/**
 * Locks the sizes of a repository until the transaction ends. It precedes the insertion of rows that refer to it, whose
 * weaker lock could not be raised while another transaction waits.
 */
export async function lockSizes(tx: Db, id: string): Promise<void> {
  if (!hasRowLocks(tx)) return
  await tx.selectFrom('repositories').select('id').where('id', '=', id).forNoKeyUpdate().execute()
}
