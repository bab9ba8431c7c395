import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createLog } from '../base/log.ts'
import { openDatabase } from './database.ts'

test('whoever asks for much, one after the other, lets everything else have its turn', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'svc-test-'))
  const log = createLog({ level: 'silent', output: process.stderr })
  const db = await openDatabase({ dataDir, url: undefined, log })
  let turns = 0
  const take = () => {
    turns += 1
    if (turns < 3) setTimeout(take)
  }
  setTimeout(take)
  await db.transaction().execute(async (tx) => {
    for (let asked = 0; asked < 50_000 && turns < 3; asked++) {
      await tx.selectFrom('marks').selectAll().execute()
    }
  })
  assert.equal(turns, 3)
  await db.destroy()
  await rm(dataDir, { recursive: true })
})
