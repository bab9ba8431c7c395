import { type SqlBool, sql } from 'kysely'
import { databaseNow } from '../database-clock.ts'
import type { Db, NodeRow } from '../schema.ts'

/** After this time without a sign of it, others take over the work of a server. */
const lostAfterMs = 10_000
const seenLately = sql<SqlBool>`nodes.seen_at > ${databaseNow} - ${sql.lit(lostAfterMs)}`

/** A running server under its name; the epoch counts the servers that have had this name. */
export type OwnNode = { id: string; epoch: number }

/** What a server shows of itself when it starts. */
export type JoiningNode = Pick<NodeRow, 'id' | 'place' | 'hostKey'>

/** Registers a server under its name; undefined while another server that runs elsewhere has it. */
export async function registerNode(
  db: Db,
  { id, place, hostKey }: JoiningNode,
): Promise<OwnNode | undefined> {
  const row = await db
    .insertInto('nodes')
    .values({ id, place, hostKey, epoch: 1, seenAt: databaseNow })
    .onConflict((conflict) =>
      conflict
        .column('id')
        .doUpdateSet({ epoch: sql<number>`nodes.epoch + 1`, seenAt: databaseNow, place, hostKey })
        .where((is) => is.or([is('nodes.place', 'in', ['', place]), is.not(seenLately)])),
    )
    .returning('epoch')
    .executeTakeFirst()
  return row && { id, epoch: row.epoch }
}

type OtherNode = Pick<NodeRow, 'id' | 'place' | 'seenAt'>

/** A server beside which a server must not run: it has the same name elsewhere, or another host key. */
export function findConflict(
  db: Db,
  { id, place, hostKey }: JoiningNode,
): Promise<OtherNode | undefined> {
  return db
    .selectFrom('nodes')
    .select(['id', 'place', 'seenAt'])
    .where(seenLately)
    .where((is) =>
      is.or([
        is.and([is('id', '=', id), is('place', 'not in', ['', place])]),
        ...(hostKey === '' ? [] : [is('hostKey', 'not in', ['', hostKey])]),
      ]),
    )
    .orderBy('id')
    .executeTakeFirst()
}

/** Shows that a server has ended. */
export async function releaseNode(db: Db, { id, epoch }: OwnNode): Promise<void> {
  await db
    .updateTable('nodes')
    .set({ seenAt: 0 })
    .where('id', '=', id)
    .where('epoch', '=', epoch)
    .execute()
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

/** The names of the servers that run, apart from the last seconds. */
export async function listNodes(db: Db): Promise<string[]> {
  const rows = await db.selectFrom('nodes').select('id').where(seenLately).orderBy('id').execute()
  return rows.map(({ id }) => id)
}
