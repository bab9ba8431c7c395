import { hasRowLocks } from '#database/row-locks.ts'
import type { Db, NamespaceLimitsRow } from '#database/schema.ts'

/** The limits of a namespace; null where there is none. */
export type NamespaceLimits = Omit<NamespaceLimitsRow, 'namespaceId'>

/** How many repositories a namespace has, and the bytes of these and of deleted ones, which can be restored. */
export type NamespaceUse = { repositories: number; bytes: number }

/** A namespace with the limits of which at least one is set. */
export type LimitedNamespace = NamespaceLimitsRow & { name: string }

export async function findNamespaceLimits(db: Db, namespaceId: string): Promise<NamespaceLimits> {
  const row = await db
    .selectFrom('namespaceLimits')
    .select(['maxRepositories', 'maxBytes'])
    .where('namespaceId', '=', namespaceId)
    .executeTakeFirst()
  return row ?? { maxRepositories: null, maxBytes: null }
}

export async function saveNamespaceLimits(tx: Db, limits: NamespaceLimitsRow): Promise<void> {
  await tx
    .insertInto('namespaceLimits')
    .values(limits)
    .onConflict((conflict) => conflict.column('namespaceId').doUpdateSet(limits))
    .execute()
}

/**
 * The limits of the namespace in which a repository is. With `update`, they stay locked until the transaction ends, so that
 * of two that add something, one sees what the other has added.
 */
export function findLimitsOfRepository(
  db: Db,
  repositoryId: string,
  kind?: 'update',
): Promise<LimitedNamespace | undefined> {
  return db
    .selectFrom('repositories')
    .innerJoin('namespaceLimits', 'namespaceLimits.namespaceId', 'repositories.namespaceId')
    .innerJoin('namespaces', 'namespaces.id', 'repositories.namespaceId')
    .selectAll('namespaceLimits')
    .select('namespaces.name')
    .where('repositories.id', '=', repositoryId)
    .$if(kind === 'update' && hasRowLocks(db), (rows) => rows.forUpdate('namespaceLimits'))
    .executeTakeFirst()
}

/** What a namespace takes: its repositories, and what pushes that are not finalized are about to add. */
export async function measureNamespace(db: Db, namespaceId: string): Promise<NamespaceUse> {
  const row = await db
    .selectFrom('repositories')
    .select((is) => [
      is.fn.countAll<number | string>().filterWhere('deletedAt', 'is', null).as('repositories'),
      is.fn.sum<number | string | null>('packBytes').as('packBytes'),
      is.fn.sum<number | string | null>('lfsBytes').as('lfsBytes'),
    ])
    .where('namespaceId', '=', namespaceId)
    .executeTakeFirstOrThrow()
  // A cross join makes SQLite begin with the few unfinished pushes, and not with all pushes of each repository.
  const { bytes } = await db
    .selectFrom('pushes')
    .crossJoin('repositories')
    .select((is) => is.fn.sum<number | string | null>('pushes.bytes').as('bytes'))
    .where('pushes.finishedAt', 'is', null)
    .whereRef('repositories.id', '=', 'pushes.repositoryId')
    .where('repositories.namespaceId', '=', namespaceId)
    .executeTakeFirstOrThrow()
  const sum = [row.packBytes, row.lfsBytes, bytes].reduce<number>(
    (total, some) => total + Number(some ?? 0),
    0,
  )
  return { repositories: Number(row.repositories), bytes: sum }
}
