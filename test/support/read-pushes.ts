import type { Database } from '#database/database.ts'
import { until } from './condition.ts'

/** Waits until everything that was pushed so far has been looked at for workflows. */
export async function untilLookedAt(db: Database): Promise<void> {
  await until('all is looked at', async () => {
    const pushes = await db.selectFrom('pushes').select('finishedAt').execute()
    if (pushes.some(({ finishedAt }) => finishedAt === null)) return false
    const marks = await db.selectFrom('marks').selectAll().execute()
    const read = marks.find(({ name }) => name === 'workflows')?.value ?? 0
    // Runs are events, too, which are passed over.
    const events = await db
      .selectFrom('events')
      .select('seq')
      .where('kind', '=', 'push')
      .orderBy('seq', 'desc')
      .limit(1)
      .executeTakeFirst()
    return read >= (events?.seq ?? 0)
  })
}
