import type { Db } from '../database/schema.ts'

export async function readInstance(db: Db): Promise<string | undefined> {
  return (await db.selectFrom('instance').select('id').executeTakeFirst())?.id
}

export async function insertInstance(db: Db, id: string): Promise<void> {
  await db.insertInto('instance').values({ id }).execute()
}
