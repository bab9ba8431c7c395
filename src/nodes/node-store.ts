import { sql } from 'kysely'
import { databaseNow } from '../database/database-clock.ts'
import type { Db } from '../database/schema.ts'

/** A running server under its name; the epoch counts the servers that have had this name. */
export type OwnNode = { id: string; epoch: number }

/** Registers a server under its name, in place of one that had the name before. */
export async function registerNode(db: Db, id: string): Promise<OwnNode> {
  const { epoch } = await db
    .insertInto('nodes')
    .values({ id, epoch: 1, seenAt: databaseNow })
    .onConflict((conflict) =>
      conflict
        .column('id')
        .doUpdateSet({ epoch: sql<number>`nodes.epoch + 1`, seenAt: databaseNow }),
    )
    .returning('epoch')
    .executeTakeFirstOrThrow()
  return { id, epoch }
}

/** Records that a server runs; returns the time of PostgreSQL, or undefined when another one has its name now. */
export async function touchNode(db: Db, { id, epoch }: OwnNode): Promise<number | undefined> {
  const row = await db
    .updateTable('nodes')
    .set({ seenAt: databaseNow })
    .where('id', '=', id)
    .where('epoch', '=', epoch)
    .returning('seenAt')
    .executeTakeFirst()
  return row?.seenAt
}

/** The time of PostgreSQL. */
export async function readTime(db: Db): Promise<number> {
  const { rows } = await sql<{ now: number }>`select ${databaseNow} as now`.execute(db)
  return rows[0]?.now ?? Date.now()
}

/** The names of the servers that were seen in the last `withinMs`. */
export async function listNodes(db: Db, withinMs: number): Promise<string[]> {
  const rows = await db
    .selectFrom('nodes')
    .select('id')
    .where('seenAt', '>', sql<number>`${databaseNow} - ${sql.lit(withinMs)}`)
    .orderBy('id')
    .execute()
  return rows.map(({ id }) => id)
}
