import { type RawBuilder, sql } from 'kysely'
import { hasRowLocks } from '#database/row-locks.ts'
import type { Db } from '#database/schema.ts'

export type ScopeKind = 'repository' | 'namespace'

/** Keeps a scope until the transaction ends; false when there is none with this id. */
export async function lockScope(
  tx: Db,
  { kind, id }: { kind: ScopeKind; id: string },
): Promise<boolean> {
  const row = await tx
    .selectFrom(kind === 'repository' ? 'repositories' : 'namespaces')
    .select('id')
    .where('id', '=', id)
    .$if(hasRowLocks(tx), (rows) => rows.forKeyShare())
    .executeTakeFirst()
  return row !== undefined
}

/** Deletes what belongs to a repository or a namespace, but for its webhooks, after its row. */
export async function deleteBelongings(tx: Db, scopeId: string): Promise<void> {
  await tx.deleteFrom('secrets').where('scopeId', '=', scopeId).execute()
  await tx.deleteFrom('protections').where('scopeId', '=', scopeId).execute()
}

/**
 * Marks the webhooks of a repository or a namespace as deleted, after the transaction has published its events; they are
 * deleted with their deliveries in the background.
 */
export async function deleteWebhooksOf(tx: Db, scopeId: string): Promise<void> {
  // Webhooks are always locked in the order of their ids, to avoid deadlocks.
  const some = tx
    .selectFrom('webhooks')
    .select('id')
    .where('scopeId', '=', scopeId)
    .where('deletedAt', 'is', null)
    .orderBy('id')
    .$if(hasRowLocks(tx), (rows) => rows.forNoKeyUpdate())
  await tx
    .updateTable('webhooks')
    .set((is) => ({ deletedAt: is.ref('createdAt'), dueAt: null }))
    .where('id', 'in', some)
    .execute()
}

/** The repository or namespace with an id; undefined when there is none. */
export async function findScope(
  db: Db,
  id: string,
): Promise<{ kind: ScopeKind; id: string; name: string } | undefined> {
  const find = (table: 'repositories' | 'namespaces') =>
    db.selectFrom(table).select(['id', 'name']).where('id', '=', id).executeTakeFirst()
  const repository = await find('repositories')
  if (repository) return { kind: 'repository', ...repository }
  const namespace = await find('namespaces')
  return namespace && { kind: 'namespace', ...namespace }
}

/** The ids of the scopes of a repository: itself and its namespace. */
export function scopesOf(repositoryId: string): RawBuilder<string> {
  return sql<string>`(${repositoryId}, (select namespace_id from repositories where id = ${repositoryId}))`
}

/** Whether an event is of a scope: of a repository while it is in the namespace, not from before. */
export function isEventOf(scopeId: string): RawBuilder<boolean> {
  return sql<boolean>`(
    repository_id in (select id from repositories where id = ${scopeId} or namespace_id = ${scopeId})
    and not exists (
      select 1 from repositories
      where id = events.repository_id and namespace_id = ${scopeId} and joined_seq >= events.seq
    )
  )`
}

/** The kind and the name of the scope of a row, by the column of its id. */
export function scopeColumns(column: string) {
  const id = sql.ref(column)
  return {
    scopeKind: sql<ScopeKind>`case when exists (select 1 from namespaces where id = ${id}) then 'namespace' else 'repository' end`,
    scopeName: sql<string>`coalesce((select name from namespaces where id = ${id}), (select name from repositories where id = ${id}), '')`,
  }
}
