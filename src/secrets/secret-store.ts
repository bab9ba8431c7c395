import type { Db, SecretRow } from '../database/schema.ts'

/** What may be told of a secret. */
export type SecretMetadata = Pick<SecretRow, 'id' | 'name' | 'createdAt' | 'updatedAt'>

/** Secrets sealed with one key, and how many of them there are. */
export type KeyUse = { keyId: string; count: number }

/** Inserts a secret; of one of that name the value is replaced. */
export async function upsertSecret(db: Db, secret: SecretRow): Promise<void> {
  const { sealedValue, keyId, updatedAt } = secret
  await db
    .insertInto('secrets')
    .values(secret)
    .onConflict((row) =>
      row.columns(['repositoryId', 'name']).doUpdateSet({ sealedValue, keyId, updatedAt }),
    )
    .execute()
}

/** The secrets of a repository after an id, oldest first. */
export function listSecrets(
  db: Db,
  repositoryId: string,
  { after, limit }: { after: string; limit: number | undefined },
): Promise<SecretMetadata[]> {
  let query = db
    .selectFrom('secrets')
    .select(['id', 'name', 'createdAt', 'updatedAt'])
    .where('repositoryId', '=', repositoryId)
    .where('id', '>', after)
    .orderBy('id')
  if (limit !== undefined) query = query.limit(limit)
  return query.execute()
}

/** The secrets of a repository as they are stored, oldest first. */
export function listSealedOf(db: Db, repositoryId: string): Promise<SecretRow[]> {
  return db
    .selectFrom('secrets')
    .selectAll()
    .where('repositoryId', '=', repositoryId)
    .orderBy('id')
    .execute()
}

export async function countSecrets(db: Db, repositoryId: string): Promise<number> {
  const { count } = await db
    .selectFrom('secrets')
    .select((select) => select.fn.countAll().as('count'))
    .where('repositoryId', '=', repositoryId)
    .executeTakeFirstOrThrow()
  return Number(count)
}

export async function deleteSecret(db: Db, repositoryId: string, name: string): Promise<boolean> {
  const row = await db
    .deleteFrom('secrets')
    .where('repositoryId', '=', repositoryId)
    .where('name', '=', name)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

/** The keys with which secrets are sealed, those of most secrets first. */
export async function listKeyUses(db: Db): Promise<KeyUse[]> {
  const rows = await db
    .selectFrom('secrets')
    .select((select) => ['keyId', select.fn.countAll().as('count')])
    .groupBy('keyId')
    .execute()
  const uses = rows.map(({ keyId, count }) => ({ keyId, count: Number(count) }))
  return uses.sort((one, other) => other.count - one.count || (one.keyId < other.keyId ? -1 : 1))
}

export type NamedSecret = SecretRow & { repositoryName: string }

/** Secrets after an id, with the names of their repositories; `notOf` leaves out those of one key. */
export function listSealed(
  db: Db,
  { after, limit, notOf }: { after: string; limit: number; notOf?: string },
): Promise<NamedSecret[]> {
  let query = db
    .selectFrom('secrets')
    .innerJoin('repositories', 'repositories.id', 'secrets.repositoryId')
    .selectAll('secrets')
    .select('repositories.name as repositoryName')
    .where('secrets.id', '>', after)
    .orderBy('secrets.id')
    .limit(limit)
  if (notOf !== undefined) query = query.where('secrets.keyId', '!=', notOf)
  return query.execute()
}

/** Seals a secret anew, if it is still as it was read; its value stays. */
export async function updateSealed(
  db: Db,
  { id, sealedValue: former }: SecretRow,
  { sealedValue, keyId }: Pick<SecretRow, 'sealedValue' | 'keyId'>,
): Promise<boolean> {
  const row = await db
    .updateTable('secrets')
    .set({ sealedValue, keyId })
    .where('id', '=', id)
    .where('sealedValue', '=', former)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

/** Deletes a secret, if it is still as it was read. */
export async function deleteSealed(db: Db, { id, sealedValue }: SecretRow): Promise<boolean> {
  const row = await db
    .deleteFrom('secrets')
    .where('id', '=', id)
    .where('sealedValue', '=', sealedValue)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}
