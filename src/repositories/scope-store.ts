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

/** Deletes what belongs to a repository or a namespace, after its row; deliveries are deleted in the background. */
export async function deleteOfScope(tx: Db, scopeId: string): Promise<void> {
  await tx.deleteFrom('secrets').where('scopeId', '=', scopeId).execute()
  await tx.deleteFrom('protections').where('scopeId', '=', scopeId).execute()
  await tx
    .updateTable('webhooks')
    .set((is) => ({ deletedAt: is.ref('createdAt'), dueAt: null }))
    .where('scopeId', '=', scopeId)
    .where('deletedAt', 'is', null)
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

/** The ids of the repositories of a scope. */
export function repositoriesOf(scopeId: string): RawBuilder<string> {
  return sql<string>`(select id from repositories where id = ${scopeId} or namespace_id = ${scopeId})`
}

/** The kind and the name of the scope of a row, by the column of its id. */
export function scopeColumns(column: string) {
  const id = sql.ref(column)
  return {
    scopeKind: sql<ScopeKind>`case when exists (select 1 from namespaces where id = ${id}) then 'namespace' else 'repository' end`,
    scopeName: sql<string>`coalesce((select name from namespaces where id = ${id}), (select name from repositories where id = ${id}), '')`,
  }
}
