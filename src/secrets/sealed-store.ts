import type { Db } from '#database/schema.ts'
import { type ScopeKind, scopeColumns } from '#repositories/scope-store.ts'

/** All tables with sealed values, and the database version that introduced each with its columns. */
export const sealedTables = [
  { table: 'secrets', version: 49 },
  { table: 'webhookSecrets', version: 52 },
] as const

export type SealedTable = (typeof sealedTables)[number]['table']

/** The number of values that a key has sealed. */
export type KeyUse = { keyId: string; count: number }

/** A sealed value; it is bound to its scope and name. */
export type SealedRow = {
  table: SealedTable
  id: string
  scopeId: string
  scopeKind: ScopeKind
  scopeName: string
  name: string
  sealedValue: Uint8Array
  keyId: string
  /** For a signing secret: its webhook, and whether a newer one has replaced it. */
  webhook: { id: string; isReplaced: boolean } | undefined
}

/** Lists the keys of sealed values, the most used first. */
export async function listKeyUses(
  db: Db,
  tables: readonly SealedTable[] = allTables,
): Promise<KeyUse[]> {
  const counts = new Map<string, number>()
  for (const table of tables) {
    const rows = await db
      .selectFrom(table)
      .select((select) => ['keyId', select.fn.countAll().as('count')])
      .groupBy('keyId')
      .execute()
    for (const { keyId, count } of rows) counts.set(keyId, (counts.get(keyId) ?? 0) + Number(count))
  }
  const uses = [...counts].map(([keyId, count]) => ({ keyId, count }))
  return uses.sort((one, other) => other.count - one.count || (one.keyId < other.keyId ? -1 : 1))
}

const allTables = sealedTables.map(({ table }) => table)

type Page = { after: string; limit: number; notOf?: string }

/** Lists the values of a table after an id, with their scopes; `notOf` excludes a key. */
export function listSealed(db: Db, table: SealedTable, page: Page): Promise<SealedRow[]> {
  return table === 'secrets' ? listSecrets(db, page) : listSigningSecrets(db, page)
}

async function listSecrets(db: Db, { after, limit, notOf = '' }: Page): Promise<SealedRow[]> {
  const { scopeKind, scopeName } = scopeColumns('secrets.scopeId')
  const rows = await db
    .selectFrom('secrets')
    .selectAll()
    .select([scopeKind.as('scopeKind'), scopeName.as('scopeName')])
    .where('secrets.id', '>', after)
    .where('secrets.keyId', '!=', notOf)
    .orderBy('secrets.id')
    .limit(limit)
    .execute()
  return rows.map((row) => ({ ...row, table: 'secrets', webhook: undefined }))
}

async function listSigningSecrets(
  db: Db,
  { after, limit, notOf = '' }: Page,
): Promise<SealedRow[]> {
  const { scopeKind, scopeName } = scopeColumns('webhookSecrets.scopeId')
  const rows = await db
    .selectFrom('webhookSecrets')
    .selectAll()
    .select([scopeKind.as('scopeKind'), scopeName.as('scopeName')])
    .where('webhookSecrets.id', '>', after)
    .where('webhookSecrets.keyId', '!=', notOf)
    .orderBy('webhookSecrets.id')
    .limit(limit)
    .execute()
  return rows.map(({ webhookId, expiresAt, ...row }) => ({
    ...row,
    table: 'webhookSecrets',
    name: nameOfSigningSecret(webhookId),
    webhook: { id: webhookId, isReplaced: expiresAt !== null },
  }))
}

/** The name to which the signing secrets of a webhook are bound; no workflow secret can have it. */
export function nameOfSigningSecret(webhookId: string): string {
  return `webhook ${webhookId}`
}

/** Replaces a sealed value, if it is unchanged since it was read. */
export async function updateSealed(
  db: Db,
  { table, id, sealedValue: former }: Pick<SealedRow, 'table' | 'id' | 'sealedValue'>,
  { sealedValue, keyId }: Pick<SealedRow, 'sealedValue' | 'keyId'>,
): Promise<boolean> {
  const row = await db
    .updateTable(table)
    .set({ sealedValue, keyId })
    .where('id', '=', id)
    .where('sealedValue', '=', former)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

/** Deletes a value, if it is unchanged since it was read. */
export async function deleteSealed(
  db: Db,
  { table, id, sealedValue }: Pick<SealedRow, 'table' | 'id' | 'sealedValue'>,
): Promise<boolean> {
  const row = await db
    .deleteFrom(table)
    .where('id', '=', id)
    .where('sealedValue', '=', sealedValue)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}
