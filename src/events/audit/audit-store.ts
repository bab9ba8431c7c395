import { sql } from 'kysely'
import { prepared } from '#database/prepared.ts'
import type { AuditRow, Db } from '#database/schema.ts'

const batchSize = 500

/** Locks the numbering of events and audit entries until the transaction ends. */
export async function lockNumbers(tx: Db): Promise<void> {
  await tx
    .updateTable('marks')
    .set({ value: sql<number>`value` })
    .where('name', '=', 'events')
    .execute()
}

const takeCount = prepared((db, { count }: { count: number }) =>
  db
    .updateTable('marks')
    .set({ value: sql<number>`value + ${count}` })
    .where('name', '=', 'audit')
    .returning((is) => [
      'value as last',
      is.selectFrom('audit').select('hash').orderBy('seq', 'desc').limit(1).as('previousHash'),
    ]),
)

/**
 * Reserves sequence numbers for entries; the numbering must be locked. Returns the last number, and the hash of the
 * preceding entry; null when there is none.
 */
export async function takeNumbers(
  tx: Db,
  count: number,
): Promise<{ last: number; previousHash: string | null }> {
  const [numbers] = await takeCount(tx, { count })
  if (!numbers) throw new Error('The mark of the audit log is missing.')
  return numbers
}

export async function insertEntries(tx: Db, rows: AuditRow[]): Promise<void> {
  for (let start = 0; start < rows.length; start += batchSize) {
    await tx
      .insertInto('audit')
      .values(rows.slice(start, start + batchSize))
      .execute()
  }
}

/** Which entries to list; times are milliseconds since the epoch. */
export type AuditFilter = {
  username?: string | undefined
  /** The id of a token or SSH key. */
  credential?: string | undefined
  actions?: string[] | undefined
  repositoryId?: string | undefined
  address?: string | undefined
  via?: string | undefined
  since?: number | undefined
  until?: number | undefined
}

/** The numbers of the first and the last entry in a period; undefined when there is none. */
export async function findExtent(
  db: Db,
  { since, until }: Pick<AuditFilter, 'since' | 'until'>,
): Promise<{ first: number; last: number } | undefined> {
  let query = db
    .selectFrom('audit')
    .select((is) => [is.fn.min('seq').as('first'), is.fn.max('seq').as('last')])
  if (since !== undefined) query = query.where('createdAt', '>=', since)
  if (until !== undefined) query = query.where('createdAt', '<=', until)
  const row = await query.executeTakeFirst()
  return row && row.first !== null && row.last !== null
    ? { first: Number(row.first), last: Number(row.last) }
    : undefined
}

/** Lists the entries between two numbers that match a filter, newest first. */
export function listEntries(
  db: Db,
  { first, last, limit }: { first: number; last: number; limit: number },
  filter: AuditFilter,
): Promise<AuditRow[]> {
  const { username, credential, actions, repositoryId, address, via, since, until } = filter
  return db
    .selectFrom('audit')
    .selectAll()
    .where('seq', '>=', first)
    .where('seq', '<=', last)
    .$if(username !== undefined, (rows) => rows.where('actorUsername', '=', username ?? ''))
    .$if(credential !== undefined, (rows) => rows.where('actorId', '=', credential ?? ''))
    .$if(actions !== undefined, (rows) => rows.where('action', 'in', actions ?? []))
    .$if(repositoryId !== undefined, (rows) => rows.where('repositoryId', '=', repositoryId ?? ''))
    .$if(address !== undefined, (rows) => rows.where('address', '=', address ?? ''))
    .$if(via !== undefined, (rows) => rows.where('via', '=', via ?? ''))
    .$if(since !== undefined, (rows) => rows.where('createdAt', '>=', since ?? 0))
    .$if(until !== undefined, (rows) => rows.where('createdAt', '<=', until ?? 0))
    .orderBy('seq', 'desc')
    .limit(limit)
    .execute()
}

/** Lists the oldest entries. */
export function listOldestEntries(
  db: Db,
  limit: number,
): Promise<Pick<AuditRow, 'seq' | 'createdAt' | 'hash'>[]> {
  return db
    .selectFrom('audit')
    .select(['seq', 'createdAt', 'hash'])
    .orderBy('seq')
    .limit(limit)
    .execute()
}

export async function deleteEntriesUpTo(db: Db, seq: number): Promise<void> {
  await db.deleteFrom('audit').where('seq', '<=', seq).execute()
}
