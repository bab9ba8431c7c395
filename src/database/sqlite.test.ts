import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createLog } from '../base/log.ts'
import { connect, type Database, openDatabase } from './database.ts'
import { prepared } from './prepared.ts'
import type { Db } from './schema.ts'
import { readDatabaseStamp } from './sqlite.ts'

const allMarks = prepared((db) => db.selectFrom('marks').selectAll())

test('a long series of queries in a transaction does not block the event loop', async () => {
  await assertGivesWay(
    (db) => db.selectFrom('marks').selectAll().execute(),
    (db, work) => db.transaction().execute(work),
  )
})

test('a long series of prepared queries does not block the event loop', async () => {
  await assertGivesWay(
    (db) => allMarks(db, {}),
    (db, work) => work(db),
  )
})

test('the stamp of a database changes with each commit, of this process or another', async () => {
  await using folder = await openTemporary()
  const { db, dataDir } = folder
  const other = await connect({ dataDir, url: undefined, log: folder.log })
  const write = (by: Db, value: number) =>
    by
      .insertInto('marks')
      .values({ name: `mark-${value}`, value })
      .execute()
  const stamps = new Set([readDatabaseStamp(db)])
  await allMarks(db, {})
  stamps.add(readDatabaseStamp(db))
  assert.equal(stamps.size, 1)
  await write(db, 1)
  stamps.add(readDatabaseStamp(db))
  await write(other, 2)
  stamps.add(readDatabaseStamp(db))
  await db.transaction().execute(async (tx) => {
    await write(tx, 3)
    assert.equal(readDatabaseStamp(db), undefined)
  })
  stamps.add(readDatabaseStamp(db))
  await db.deleteFrom('marks').execute()
  stamps.add(readDatabaseStamp(db))
  assert.equal(stamps.size, 5)
  assert.ok(!stamps.has(undefined))
  await other.destroy()
})

async function openTemporary() {
  const dataDir = await mkdtemp(join(tmpdir(), 'svc-test-'))
  const log = createLog({ level: 'silent', output: process.stderr })
  const db = await openDatabase({ dataDir, url: undefined, log })
  return {
    ...{ db, dataDir, log },
    async [Symbol.asyncDispose]() {
      await db.destroy()
      await rm(dataDir, { recursive: true })
    },
  }
}

async function assertGivesWay(
  ask: (db: Db) => Promise<unknown>,
  within: (db: Database, work: (db: Db) => Promise<void>) => Promise<void>,
) {
  await using temporary = await openTemporary()
  const { db } = temporary
  let turns = 0
  const take = () => {
    turns += 1
    if (turns < 3) setTimeout(take)
  }
  setTimeout(take)
  await within(db, async (db) => {
    for (let asked = 0; asked < 50_000 && turns < 3; asked++) await ask(db)
  })
  assert.equal(turns, 3)
}
