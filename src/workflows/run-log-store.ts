import type { Db, RunLogRow } from '#database/schema.ts'
import type { OfAttempt } from './run-job-store.ts'

export async function insertLog(tx: Db, piece: RunLogRow): Promise<void> {
  await tx.insertInto('runLogs').values(piece).execute()
}

/** Lists the pieces of a log from an offset on, in order; the first one may begin before it. */
export async function listLog(
  db: Db,
  { runId, attempt, from, limit }: OfAttempt & { from: number; limit: number },
): Promise<RunLogRow[]> {
  // Uses the primary key only, so the end of a long log is found as fast as its start.
  const before = await db
    .selectFrom('runLogs')
    .select('start')
    .where('runId', '=', runId)
    .where('attempt', '=', attempt)
    .where('start', '<=', from)
    .orderBy('start', 'desc')
    .limit(1)
    .executeTakeFirst()
  return db
    .selectFrom('runLogs')
    .selectAll()
    .where('runId', '=', runId)
    .where('attempt', '=', attempt)
    .where('start', '>=', before?.start ?? from)
    .where((is) => is(is('start', '+', is.ref('size')), '>', from))
    .orderBy('start')
    .limit(limit)
    .execute()
}

/** Sums the output bytes of each step of an attempt. */
export async function measureOutputs(
  db: Db,
  { runId, attempt }: OfAttempt,
): Promise<{ step: number; size: number }[]> {
  const rows = await db
    .selectFrom('runLogs')
    .select((is) => ['step', is.fn.sum<number | string>('size').as('size')])
    .where('runId', '=', runId)
    .where('attempt', '=', attempt)
    .where('step', 'is not', null)
    .groupBy('step')
    .execute()
  return rows.flatMap(({ step, size }) => (step === null ? [] : [{ step, size: Number(size) }]))
}

/** Lists the output pieces of one step or of all steps of an attempt, in order, that start after an offset. */
export function listOutput(
  db: Db,
  {
    runId,
    attempt,
    step,
    after,
    limit,
  }: OfAttempt & { step?: number | undefined } & {
    after: number
    limit: number
  },
): Promise<Pick<RunLogRow, 'start' | 'step' | 'text'>[]> {
  let query = db
    .selectFrom('runLogs')
    .select(['start', 'step', 'text'])
    .where('runId', '=', runId)
    .where('attempt', '=', attempt)
    .where('start', '>', after)
    .where('step', 'is not', null)
  if (step !== undefined) query = query.where('step', '=', step)
  return query.orderBy('start').limit(limit).execute()
}

/** Detaches log lines of a lost run from its steps, so they remain as lines of the run. */
export async function detachLog(tx: Db, { runId, attempt }: OfAttempt): Promise<void> {
  await tx
    .updateTable('runLogs')
    .set({ step: null })
    .where('runId', '=', runId)
    .where('attempt', '=', attempt)
    .execute()
}
