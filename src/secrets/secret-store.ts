import type { PageRequest } from '#base/list-all.ts'
import type { Db, SecretRow } from '#database/schema.ts'
import { scopesOf } from '#repositories/scope-store.ts'

/** The public part of a secret. */
export type SecretMetadata = Pick<SecretRow, 'id' | 'name' | 'createdAt' | 'updatedAt'>

/** Inserts a secret, or replaces its value if the name exists. */
export async function upsertSecret(db: Db, secret: SecretRow): Promise<void> {
  const { sealedValue, keyId, updatedAt } = secret
  await db
    .insertInto('secrets')
    .values(secret)
    .onConflict((row) =>
      row.columns(['scopeId', 'name']).doUpdateSet({ sealedValue, keyId, updatedAt }),
    )
    .execute()
}

/** Lists the secrets of a scope after an id, oldest first. */
export function listSecrets(
  db: Db,
  scopeId: string,
  { after, limit }: PageRequest,
): Promise<SecretMetadata[]> {
  return db
    .selectFrom('secrets')
    .select(['id', 'name', 'createdAt', 'updatedAt'])
    .where('scopeId', '=', scopeId)
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .execute()
}

/** Lists the secrets of a repository and of its namespace with their sealed values, those of the namespace first. */
export function listSealedOf(db: Db, repositoryId: string): Promise<SecretRow[]> {
  return db
    .selectFrom('secrets')
    .selectAll()
    .where('scopeId', 'in', scopesOf(repositoryId))
    .orderBy((is) => is('scopeId', '=', repositoryId))
    .orderBy('id')
    .execute()
}

export async function countSecrets(db: Db, scopeId: string): Promise<number> {
  const { count } = await db
    .selectFrom('secrets')
    .select((select) => select.fn.countAll().as('count'))
    .where('scopeId', '=', scopeId)
    .executeTakeFirstOrThrow()
  return Number(count)
}

export async function deleteSecret(db: Db, scopeId: string, name: string): Promise<boolean> {
  const row = await db
    .deleteFrom('secrets')
    .where('scopeId', '=', scopeId)
    .where('name', '=', name)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}
