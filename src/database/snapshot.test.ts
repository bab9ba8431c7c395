import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import pg from 'pg'
import { createLog } from '#base/log.ts'
import { listChangingRefs } from '#ops/backup/journal-store.ts'
import { createPostgresDatabase } from '../../test/support/databases.ts'
import { temporaryFolder } from '../../test/support/git.ts'
import { without } from '../../test/support/programs.ts'
import { type DatabaseOptions, openDatabase } from './database.ts'
import { openRowSnapshot } from './snapshot.ts'

const log = createLog({ level: 'silent', output: process.stderr })

type Writer = { options: DatabaseOptions; write: (id: string) => Promise<void> } & AsyncDisposable

const engines = {
  SQLite: { open: onSqlite, skip: false, refusal: /database is locked/ },
  PostgreSQL: { open: onPostgres, skip: without('postgres'), refusal: /lock timeout/ },
} as const

for (const [name, { open, skip, refusal }] of Object.entries(engines)) {
  test(`on ${name}, a snapshot blocks writes to the journal, and does not see later ones`, {
    skip,
  }, async () => {
    await using writer = await open()
    await writer.write('before')
    let isPast = false
    await using moment = await openRowSnapshot(writer.options, async (rows) => {
      await assert.rejects(writer.write('meanwhile'), refusal)
      isPast = true
      return (await listChangingRefs(rows)).length
    })
    assert.deepEqual([moment.found, isPast], [1, true])
    await writer.write('after')
    assert.equal((await listChangingRefs(moment.db)).length, 1)
    const db = await openDatabase(writer.options)
    assert.equal((await listChangingRefs(db)).length, 2)
    await db.destroy()
  })

  test(`on ${name}, a snapshot that takes too long fails, and writes continue`, {
    skip,
  }, async () => {
    await using writer = await open()
    const endless = openRowSnapshot(writer.options, async (_, signal) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      signal.throwIfAborted()
    })
    await assert.rejects(endless, { name: 'TimeoutError' })
    await writer.write('after')
  })
}

const insertRepository = `insert into repositories
  (id, name, name_key, owner_token_id, owner_username, created_at) values ('r', 'r', 'r', 'o', 'o', 1)`

const insertPush = (id: string) => `insert into pushes
  (id, repository_id, actor_id, actor_username, updates, judged_at)
  values ('${id}', 'r', 'a', 'a', '[{"ref":"refs/heads/main"}]', 1)`

async function onSqlite(): Promise<Writer> {
  const folder = await temporaryFolder()
  const options = { dataDir: folder.path, url: undefined, log }
  await (await openDatabase(options)).destroy()
  const database = new DatabaseSync(join(folder.path, 'svc.db'), { timeout: 0 })
  database.exec(insertRepository)
  return {
    options,
    write: async (id) => database.exec(insertPush(id)),
    async [Symbol.asyncDispose]() {
      database.close()
      await folder[Symbol.asyncDispose]()
    },
  }
}

async function onPostgres(): Promise<Writer> {
  const { url, drop } = await createPostgresDatabase()
  const options = { dataDir: '', url, log }
  await (await openDatabase(options)).destroy()
  const client = new pg.Client(url)
  await client.connect()
  await client.query(`set lock_timeout = '50ms'`)
  await client.query(insertRepository)
  return {
    options,
    async write(id) {
      await client.query(insertPush(id))
    },
    async [Symbol.asyncDispose]() {
      await client.end()
      await drop()
    },
  }
}
