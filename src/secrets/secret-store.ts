import type { PageRequest } from '#base/list-all.ts'
import type { Db, SecretRow } from '#database/schema.ts'

/** The public part of a secret. */
export type SecretMetadata = Pick<SecretRow, 'id' | 'name' | 'createdAt' | 'updatedAt'>

/** Inserts a secret, or replaces its value if the name exists. */
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

/** Lists the secrets of a repository after an id, oldest first. */
export function listSecrets(
  db: Db,
  repositoryId: string,
  { after, limit }: PageRequest,
): Promise<SecretMetadata[]> {
  return db
    .selectFrom('secrets')
    .select(['id', 'name', 'createdAt', 'updatedAt'])
    .where('repositoryId', '=', repositoryId)
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .execute()
}

/** Lists the secrets of a repository with their sealed values, oldest first. */
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
