import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, test } from 'node:test'
import { temporaryFolder } from '../../test/support/git.ts'
import { withDialect } from './database.ts'
import { prepared } from './prepared.ts'
import { sqliteDialect } from './sqlite.ts'

const byName = prepared((db, { name, least }: { name: string; least: number }) =>
  db
    .selectFrom('marks')
    .select(['name', 'value as lastValue'])
    .where('value', '>=', least)
    .where('name', '=', name),
)

const folder = await temporaryFolder()
let databases = 0

after(() => folder[Symbol.asyncDispose]())

async function openMarks(path = join(folder.path, `${databases++}.db`)) {
  const db = withDialect(sqliteDialect(path))
  await db.schema
    .createTable('marks')
    .addColumn('name', 'text')
    .addColumn('value', 'integer')
    .execute()
  return db
}

test('a prepared query takes new values each time, in the given database or transaction', async () => {
  await using db = await openMarks()
  await using other = await openMarks()
  await db
    .insertInto('marks')
    .values([
      { name: 'a', value: 1 },
      { name: 'b', value: 2 },
    ])
    .execute()
  assert.deepEqual(await byName(db, { name: 'a', least: 1 }), [{ name: 'a', lastValue: 1 }])
  assert.deepEqual(await byName(db, { name: 'b', least: 1 }), [{ name: 'b', lastValue: 2 }])
  assert.deepEqual(await byName(db, { name: 'a', least: 2 }), [])
  assert.deepEqual(await byName(other, { name: 'a', least: 1 }), [])
  await db.transaction().execute(async (tx) => {
    await tx.updateTable('marks').set({ value: 3 }).where('name', '=', 'a').execute()
    assert.deepEqual(await byName(tx, { name: 'a', least: 3 }), [{ name: 'a', lastValue: 3 }])
  })
})

test('a prepared query outside a transaction does not see its uncommitted changes', async () => {
  await using db = await openMarks()
  const transaction = await db.startTransaction().execute()
  await transaction.insertInto('marks').values({ name: 'a', value: 1 }).execute()
  const found = byName(db, { name: 'a', least: 1 })
  assert.deepEqual(await byName(transaction, { name: 'a', least: 1 }), [
    { name: 'a', lastValue: 1 },
  ])
  await transaction.rollback().execute()
  assert.deepEqual(await found, [])
})

test('a prepared query does not wait behind a writer', async () => {
  await using folder = await temporaryFolder()
  const path = join(folder.path, 'marks.db')
  await using db = await openMarks(path)
  using other = new DatabaseSync(path)
  other.exec('begin immediate')
  const written = db
    .transaction()
    .execute((tx) => tx.insertInto('marks').values({ name: 'a', value: 1 }).execute())
  assert.deepEqual(await byName(db, { name: 'a', least: 1 }), [])
  other.exec('commit')
  await written
  assert.deepEqual(await byName(db, { name: 'a', least: 1 }), [{ name: 'a', lastValue: 1 }])
})
