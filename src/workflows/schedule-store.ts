import type { Db, ScheduleRow } from '#database/schema.ts'

export async function replaceSchedules(
  tx: Db,
  repositoryId: string,
  schedules: ScheduleRow[],
): Promise<void> {
  await tx.deleteFrom('schedules').where('repositoryId', '=', repositoryId).execute()
  if (schedules.length > 0) await tx.insertInto('schedules').values(schedules).execute()
}

/** Deletes the schedules of a repository that are not among these. */
export async function retainSchedules(
  tx: Db,
  repositoryId: string,
  schedules: readonly ScheduleRow[],
): Promise<void> {
  const keyOf = ({ file, cron, timezone }: ScheduleRow) => JSON.stringify([file, cron, timezone])
  const retained = new Set(schedules.map(keyOf))
  const all = await tx
    .selectFrom('schedules')
    .selectAll()
    .where('repositoryId', '=', repositoryId)
    .execute()
  const rest = all.filter((row) => retained.has(keyOf(row)))
  if (rest.length < all.length) await replaceSchedules(tx, repositoryId, rest)
}

/** Lists schedules that are due, the earliest first. */
export function listDue(db: Db, now: number, limit: number): Promise<ScheduleRow[]> {
  return db
    .selectFrom('schedules')
    .selectAll()
    .where('nextAt', '<=', now)
    .orderBy('nextAt')
    .limit(limit)
    .execute()
}

/** Sets the next time of a schedule; false when another server has done so, or the schedule no longer exists. */
export async function reschedule(tx: Db, schedule: ScheduleRow, nextAt: number): Promise<boolean> {
  const { repositoryId, file, cron, timezone } = schedule
  const row = await tx
    .updateTable('schedules')
    .set({ nextAt })
    .where('repositoryId', '=', repositoryId)
    .where('file', '=', file)
    .where('cron', '=', cron)
    .where('timezone', '=', timezone)
    .where('nextAt', '=', schedule.nextAt)
    .returning('file')
    .executeTakeFirst()
  return row !== undefined
}
