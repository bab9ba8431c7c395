import type { Db } from '#database/schema.ts'

/** The parts of the service that read the event log. The cursor of each is the row of its name in `marks`. */
const readers = ['maintenance', 'workflows'] as const

type CursorName = (typeof readers)[number]

/** Reads a cursor, and locks it until the transaction ends. */
export async function lockCursor(tx: Db, reader: CursorName): Promise<number> {
  const row = await tx
    .updateTable('marks')
    .set((is) => ({ value: is.ref('value') }))
    .where('name', '=', reader)
    .returning('value')
    .executeTakeFirstOrThrow()
  return row.value
}

export async function readCursor(db: Db, reader: CursorName): Promise<number> {
  const row = await db
    .selectFrom('marks')
    .select('value')
    .where('name', '=', reader)
    .executeTakeFirstOrThrow()
  return row.value
}

export async function updateCursor(tx: Db, reader: CursorName, seq: number): Promise<void> {
  await tx.updateTable('marks').set({ value: seq }).where('name', '=', reader).execute()
}

/** Whether there are events that a reader has not read. */
export async function hasUnread(db: Db, reader: CursorName): Promise<boolean> {
  const rows = await db
    .selectFrom('marks')
    .select(['name', 'value'])
    .where('name', 'in', ['events', reader])
    .execute()
  const values = new Map(rows.map(({ name, value }) => [name, value]))
  return (values.get('events') ?? 0) > (values.get(reader) ?? 0)
}

/** Whether there are events of some kinds in a repository that a reader has not read. */
export async function hasUnreadOf(
  db: Db,
  reader: CursorName,
  { repositoryId, kinds }: { repositoryId: string; kinds: readonly string[] },
): Promise<boolean> {
  const row = await db
    .selectFrom('events')
    .select('seq')
    .where('seq', '>', (is) => is.selectFrom('marks').select('value').where('name', '=', reader))
    .where('kind', 'in', kinds)
    .where('repositoryId', '=', repositoryId)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/** The sequence number of the oldest event that some reader has not read; the event may not exist yet. */
export async function oldestUnread(db: Db): Promise<number> {
  const rows = await db.selectFrom('marks').select('value').where('name', 'in', readers).execute()
  return Math.min(...rows.map(({ value }) => value)) + 1
}
