import { prepared } from '#database/prepared.ts'
import { hasRowLocks } from '#database/row-locks.ts'
import type { Db, ProtectionRow } from '#database/schema.ts'
import { scopesOf } from './scope-store.ts'

/** Inserts a protection; false when there is one of the same pattern. */
export async function insertProtection(db: Db, protection: ProtectionRow): Promise<boolean> {
  const row = await db
    .insertInto('protections')
    .values(protection)
    .onConflict((conflict) => conflict.columns(['scopeId', 'branch']).doNothing())
    .returning('branch')
    .executeTakeFirst()
  return row !== undefined
}

/** Changes the rules of a protection; false when they are the same, or there is none. */
export async function updateProtection(
  db: Db,
  { scopeId, branch, ...rules }: Omit<ProtectionRow, 'createdAt'>,
): Promise<boolean> {
  const row = await db
    .updateTable('protections')
    .set(rules)
    .where('scopeId', '=', scopeId)
    .where('branch', '=', branch)
    .where((is) => is.not(is.and(rules)))
    .returning('branch')
    .executeTakeFirst()
  return row !== undefined
}

/** Locks a protection until the end of the transaction; undefined when there is none. */
export function lockProtection(
  tx: Db,
  { scopeId, branch }: Pick<ProtectionRow, 'scopeId' | 'branch'>,
): Promise<ProtectionRow | undefined> {
  return tx
    .selectFrom('protections')
    .selectAll()
    .where('scopeId', '=', scopeId)
    .where('branch', '=', branch)
    .$if(hasRowLocks(tx), (rows) => rows.forUpdate())
    .executeTakeFirst()
}

const ofScope = prepared((db, { scopeId }: { scopeId: string }) =>
  db
    .selectFrom('protections')
    .selectAll()
    .where('scopeId', '=', scopeId)
    .orderBy('createdAt')
    .orderBy('branch'),
)

/** The protections of a repository or of a namespace, oldest first. */
export function listProtections(db: Db, scopeId: string): Promise<ProtectionRow[]> {
  return ofScope(db, { scopeId })
}

/** A protection with the name of the namespace that has it; null for one of a repository. */
export type JoinedProtection = ProtectionRow & { namespace: string | null }

const inForce = prepared((db, { repositoryId }: { repositoryId: string }) =>
  db
    .selectFrom('protections')
    .leftJoin('namespaces', 'namespaces.id', 'protections.scopeId')
    .selectAll('protections')
    .select('namespaces.name as namespace')
    .where('scopeId', 'in', scopesOf(repositoryId))
    .orderBy('protections.createdAt')
    .orderBy('branch'),
)

/** The protections of a repository and of its namespace, oldest first. */
export function listProtectionsInForce(db: Db, repositoryId: string): Promise<JoinedProtection[]> {
  return inForce(db, { repositoryId })
}

/** The protections of all repositories whose ids lie in a range, both ends included. */
export function listProtectionsBetween(
  db: Db,
  first: string,
  last: string,
): Promise<ProtectionRow[]> {
  return db
    .selectFrom('protections')
    .selectAll()
    .where('scopeId', '>=', first)
    .where('scopeId', '<=', last)
    .orderBy('createdAt')
    .orderBy('branch')
    .execute()
}

/** The protections of several repositories. */
export function listProtectionsOfAll(
  db: Db,
  repositoryIds: readonly string[],
): Promise<ProtectionRow[]> {
  if (repositoryIds.length === 0) return Promise.resolve([])
  return db
    .selectFrom('protections')
    .selectAll()
    .where('scopeId', 'in', repositoryIds)
    .orderBy('createdAt')
    .orderBy('branch')
    .execute()
}

export async function deleteProtection(db: Db, scopeId: string, branch: string): Promise<boolean> {
  const row = await db
    .deleteFrom('protections')
    .where('scopeId', '=', scopeId)
    .where('branch', '=', branch)
    .returning('branch')
    .executeTakeFirst()
  return row !== undefined
}
