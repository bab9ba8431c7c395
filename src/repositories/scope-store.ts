import { sql } from 'kysely'
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

/** Deletes what belongs to a repository or a namespace, after its row. */
export async function deleteOfScope(tx: Db, scopeId: string): Promise<void> {
  await tx.deleteFrom('secrets').where('scopeId', '=', scopeId).execute()
}

/** The kind and the name of the scope of a row, by the column of its id. */
export function scopeColumns(column: string) {
  const id = sql.ref(column)
  return {
    scopeKind: sql<ScopeKind>`case when exists (select 1 from namespaces where id = ${id}) then 'namespace' else 'repository' end`,
    scopeName: sql<string>`coalesce((select name from namespaces where id = ${id}), (select name from repositories where id = ${id}), '')`,
  }
}
