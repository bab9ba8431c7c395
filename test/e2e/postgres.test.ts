import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import pg from 'pg'
import { createPostgresDatabase } from '../support/databases.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { launcher, startService } from '../support/service.ts'

const execute = promisify(execFile)
const needed = { skip: without('postgres') }

test('PostgreSQL behaves like SQLite', needed, async () => {
  const { url, drop } = await createPostgresDatabase({ isEmpty: true })
  {
    await using service = await startService({ env: { SVC_DATABASE_URL: url } })
    await using project = await createProject()
    await service.admin.post('/repos', { name: 'site' })
    await service.admin.put('/repos/site/protections/branches/main')
    await service.admin.post('/repos/site/collaborators', { username: 'grace' })
    const grace = await service.client({ username: 'grace' })
    await assert.rejects(project.git('push', grace.remote('site'), 'main'), /protected/)
    await project.git('push', '--quiet', service.admin.remote('site'), 'main')
    assert.equal((await grace.get('/repos')).body[0].name, 'site')
    for (const path of ['/repos/%00', '/repos/site/collaborators/%00', '/tokens/%00']) {
      assert.equal((await service.admin.delete(path)).status, 404, path)
    }
    for (const filter of ['credential', 'repositoryId', 'address'])
      assert.equal((await service.admin.get(`/audit?${filter}=%00`)).status, 400, filter)
    const asked = { action: 'fetch', tokenId: '\0' }
    assert.equal((await service.admin.post('/repos/site/check', asked)).status, 404)
    await project.commit('more')
    await project.git('push', '--quiet', service.admin.remote('site'), 'main')
    const { PATH = '' } = process.env
    const env = { PATH, SVC_DATA_DIR: service.dataDir, SVC_DATABASE_URL: url }
    const { stdout } = await execute(launcher, ['repos', 'maintain', 'site'], { env })
    assert.match(stdout, /^site: 2 packs of .*, now 1 pack of /)
    const { text } = await service.admin.get('/metrics')
    assert.match(text, /^svc_repositories 1$/m)
    assert.match(text, /^svc_maintenance_runs_total\{outcome="done"\} 1$/m)
  }
  await drop()
})

test('connections that break under load fail only their requests', {
  ...exhaustive,
  ...needed,
}, async () => {
  const { url, drop } = await createPostgresDatabase()
  {
    await using service = await startService({ env: { SVC_DATABASE_URL: url } })
    const breaker = new pg.Client(url)
    await breaker.connect()
    const statuses = new Set<number>()
    let rounds = 0
    const load = Array.from({ length: 8 }, async (_, worker) => {
      for (let count = 0; rounds < 20; count++) {
        const name = `load-${worker}-${count}`
        statuses.add((await service.admin.post('/repos', { name })).status)
      }
    })
    for (; rounds < 20; rounds++) {
      await breaker.query('select pg_sleep(0.05)')
      await breaker.query(
        'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
      )
    }
    await Promise.all(load)
    await breaker.end()
    assert.ok(
      [...statuses].every((status) => status === 201 || status === 503),
      `answers: ${[...statuses].join()}`,
    )
    assert.equal((await service.admin.post('/repos', { name: 'after' })).status, 201)
    assert.equal(await service.end('SIGTERM'), 0)
  }
  await drop()
})
