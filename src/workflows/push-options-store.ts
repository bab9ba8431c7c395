import type { PushRunOptions } from '#database/push-schema.ts'
import type { Db } from '#database/schema.ts'

/** What a push says about its runs. */
export async function findPushRunOptions(
  db: Db,
  pushId: string | undefined,
): Promise<PushRunOptions> {
  if (pushId === undefined) return {}
  const row = await db
    .selectFrom('pushes')
    .select('runOptions')
    .where('id', '=', pushId)
    .executeTakeFirst()
  return row?.runOptions ? JSON.parse(row.runOptions) : {}
}
