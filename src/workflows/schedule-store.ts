import type { Db, ScheduleRow } from '../database/schema.ts'

/** Puts the schedules of a repository in place of those that it had. */
export async function replaceSchedules(
  tx: Db,
  repositoryId: string,
  schedules: ScheduleRow[],
): Promise<void> {
  await tx.deleteFrom('schedules').where('repositoryId', '=', repositoryId).execute()
  if (schedules.length > 0) await tx.insertInto('schedules').values(schedules).execute()
}

/** Schedules whose time has come, the earliest first. */
export function listDue(db: Db, now: number, most: number): Promise<ScheduleRow[]> {
  return db
    .selectFrom('schedules')
    .selectAll()
    .where('nextAt', '<=', now)
    .orderBy('nextAt')
    .limit(most)
    .execute()
}

/** Sets when a schedule comes next; false when somebody else has, or it is gone. */
export async function moveOn(tx: Db, schedule: ScheduleRow, nextAt: number): Promise<boolean> {
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
