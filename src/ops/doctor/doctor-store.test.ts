import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLog } from '#base/log.ts'
import { connect } from '#database/database.ts'
import { migrate } from '#database/migrate.ts'
import { migrations, runFilesTables } from '#database/migrations.ts'
import { temporaryFolder } from '../../../test/support/git.ts'
import { listStoredFiles } from './doctor-store.ts'

test('the files in the bucket are listed by a database from before artifacts and caches', async () => {
  await using folder = await temporaryFolder()
  const log = createLog({ level: 'silent', output: process.stderr })
  const db = connect({ dataDir: folder.path, url: undefined, log })
  try {
    await migrate(db, 'sqlite', migrations.slice(0, migrations.indexOf(runFilesTables)))
    assert.deepEqual(await listStoredFiles(db), { live: new Map(), others: new Set() })
  } finally {
    await db.destroy()
  }
})
