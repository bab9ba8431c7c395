import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEachDatabase } from '../../test/support/databases.ts'
import { readDatabaseStamp } from './database-stamp.ts'
import type { Db } from './schema.ts'

onEachDatabase((fresh, engine) => {
  const write = (db: Db, value: number) =>
    db
      .insertInto('marks')
      .values({ name: `mark-${value}`, value })
      .execute()

  test('the stamp changes with each commit, of this process or another', async () => {
    await using database = await fresh()
    const [db, other] = [await database.open(), await database.open()]
    const stamps = [await readDatabaseStamp(db)]
    const note = async () => stamps.push(await readDatabaseStamp(db))
    await write(db, 1)
    await note()
    await write(other, 2)
    await note()
    await db.transaction().execute((tx) => write(tx, 3))
    await note()
    await db.deleteFrom('marks').execute()
    await note()
    assert.ok(!stamps.includes(undefined))
    assert.equal(new Set(stamps).size, stamps.length)
  })

  test('the stamp is not that of a transaction before its commit is seen', async () => {
    await using database = await fresh()
    const [db, other] = [await database.open(), await database.open()]
    const before = await readDatabaseStamp(db)
    const within = await other.transaction().execute(async (tx) => {
      await write(tx, 1)
      return readDatabaseStamp(db)
    })
    const after = await readDatabaseStamp(db)
    assert.notEqual(after, before)
    assert.notEqual(after, within)
  })

  if (engine === 'sqlite') {
    test('there is no stamp during a transaction', async () => {
      await using database = await fresh()
      const db = await database.open()
      const stamp = await db.transaction().execute(async (tx) => {
        await write(tx, 1)
        return readDatabaseStamp(db)
      })
      assert.equal(stamp, undefined)
    })
  }
})
