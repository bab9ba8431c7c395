// Tags: exhaustive
import assert from 'node:assert/strict'
import { copyFile, mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { createPostgresDatabase } from '../support/databases.ts'
import { createProject, git, temporaryFolder } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { startService } from '../support/service.ts'

test('a database that does not belong to the data directory stops the start, and nothing is lost', async () => {
  await using folder = await temporaryFolder()
  await using project = await createProject()
  const dataDir = join(folder.path, 'data')
  await using first = await startService({ dataDir })
  await first.admin.post('/repos', { name: 'site' })
  await project.git('push', '--quiet', first.admin.remote('site'), 'main')
  await first.end('SIGTERM')

  const elsewhere = join(folder.path, 'elsewhere')
  await using other = await startService({ dataDir: elsewhere })
  await other.end('SIGTERM')
  const names = ['svc.db', 'svc.db-wal', 'svc.db-shm']
  const keep = join(folder.path, 'kept.db')
  await copyFile(join(dataDir, 'svc.db'), keep)
  for (const wrong of [undefined, join(elsewhere, 'svc.db')]) {
    for (const name of names) await rm(join(dataDir, name), { force: true })
    if (wrong) await copyFile(wrong, join(dataDir, 'svc.db'))
    await assert.rejects(startService({ dataDir }), /do not belong together/)
  }

  for (const name of names) await rm(join(dataDir, name), { force: true })
  await copyFile(keep, join(dataDir, 'svc.db'))
  await using again = await startService({ dataDir, env: { SVC_ADMIN_TOKEN: first.adminToken } })
  assert.match(await project.git('ls-remote', again.admin.remote('site')), /refs\/heads\/main/)
})

test('a repository that is missing in an old database is quarantined, not deleted', async () => {
  await using folder = await temporaryFolder()
  await using project = await createProject()
  const dataDir = join(folder.path, 'data')
  await using first = await startService({ dataDir })
  assert.equal(await first.end('SIGTERM'), 0)
  await copyFile(join(dataDir, 'svc.db'), join(folder.path, 'old.db'))
  const env = { SVC_ADMIN_TOKEN: first.adminToken }
  await using second = await startService({ dataDir, env })
  await second.admin.post('/repos', { name: 'site' })
  await project.git('push', '--quiet', second.admin.remote('site'), 'main')
  // One whose refs are in another format is not taken for empty.
  const { body: odd } = await second.admin.post('/repos', { name: 'odd' })
  await mkdir(join(odd.path, 'reftable'))
  await writeFile(join(odd.path, 'HEAD'), 'ref: refs/heads/.invalid\n')
  await second.end('SIGTERM')
  await copyFile(join(folder.path, 'old.db'), join(dataDir, 'svc.db'))
  await using third = await startService({ dataDir, env })
  assert.deepEqual((await third.admin.get('/repos')).body, [])
  const [lost = '', other] = (await readdir(join(dataDir, 'lost+found'))).sort()
  assert.ok(other?.includes(odd.id))
  assert.match(third.log(), /repositories missing from the database/)
  const { stdout } = await git(join(dataDir, 'lost+found', lost), ['rev-parse', 'main'])
  assert.equal(stdout, await project.git('rev-parse', 'HEAD'))
})

test('a database on PostgreSQL serves one data directory', {
  skip: without('postgres'),
}, async () => {
  await using folder = await temporaryFolder()
  const { url, drop } = await createPostgresDatabase()
  const env = { SVC_DATABASE_URL: url }
  {
    await using first = await startService({ dataDir: join(folder.path, 'one'), env })
    assert.equal((await first.admin.post('/repos', { name: 'site' })).status, 201)
    await assert.rejects(
      startService({ dataDir: join(folder.path, 'two'), env }),
      /do not belong together/,
    )
    await first.end('SIGTERM')
    await using again = await startService({ dataDir: join(folder.path, 'one'), env })
    await again.end('SIGTERM')
    await assert.rejects(
      startService({ dataDir: join(folder.path, 'one') }),
      /do not belong together/,
    )
  }
  await drop()
})
