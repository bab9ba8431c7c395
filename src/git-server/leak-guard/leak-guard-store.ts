import type { Db } from '#database/schema.ts'

/** The key of the ids of findings; undefined before the first finding. */
export async function readLeakGuardKey(db: Db): Promise<string | undefined> {
  return (await db.selectFrom('leakGuardKeys').select('key').executeTakeFirst())?.key
}

/** Sets the key unless there is one. */
export async function insertLeakGuardKey(db: Db, key: string): Promise<void> {
  await db
    .insertInto('leakGuardKeys')
    .values({ id: 1, key })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .execute()
}
