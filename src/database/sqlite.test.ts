import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createLog } from '#base/log.ts'
import { type Database, openDatabase } from './database.ts'
import { prepared } from './prepared.ts'
import type { Db } from './schema.ts'

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

async function assertGivesWay(
  ask: (db: Db) => Promise<unknown>,
  within: (db: Database, work: (db: Db) => Promise<void>) => Promise<void>,
) {
  const dataDir = await mkdtemp(join(tmpdir(), 'svc-test-'))
  const log = createLog({ level: 'silent', output: process.stderr })
  const db = await openDatabase({ dataDir, url: undefined, log })
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
  await db.destroy()
  await rm(dataDir, { recursive: true })
}
