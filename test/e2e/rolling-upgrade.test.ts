// Tags: exhaustive
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { createLog } from '#base/log.ts'
import { connect } from '#database/database.ts'
import { migrate } from '#database/migrate.ts'
import { migrations } from '#database/migrations.ts'
import { runSvc } from '../support/command.ts'
import { examine } from '../support/doctor.ts'
import { createProject, git, temporaryFolder } from '../support/git.ts'
import { withoutObjectStore } from '../support/object-store.ts'
import { without } from '../support/programs.ts'
import { type Service, startService } from '../support/service.ts'
import { type StoreSite, startStoreSite } from '../support/store-site.ts'

const log = createLog({ level: 'silent', output: process.stderr })

/** What every table may get from a newer version. */
const columns = ['repositories', 'tokens', 'pushes', 'refs', 'packs', 'instance', 'nodes', 'runs']

describe('servers of two versions on one database', {
  skip: without('postgres') || withoutObjectStore,
}, () => {
  const resources = new AsyncDisposableStack()
  let site: StoreSite
  let folder: string
  let url: string

  before(async () => {
    folder = resources.use(await temporaryFolder()).path
    site = resources.use(await startStoreSite())
    url = site.env.SVC_DATABASE_URL
  })

  after(() => resources.disposeAsync())

  async function query(text: string): Promise<void> {
    const client = new pg.Client(url)
    await client.connect()
    await client.query(text)
    await client.end()
  }

  /** Works with a repository over all of its life. */
  async function use({ admin }: Service, name: string): Promise<void> {
    await using project = await createProject()
    assert.equal((await admin.post('/repos', { name })).status, 201)
    for (const [index, branch] of ['main', 'topic', 'main'].entries()) {
      await project.commit(`${name}-${index}`)
      await project.git('push', '--quiet', admin.remote(name), `HEAD:${branch}`)
    }
    await git('/', ['ls-remote', admin.remote(name)])
    for (const path of ['', '/pushes', '/branches', '/commits', '/workflows'])
      assert.equal((await admin.get(`/repos/${name}${path}`)).status, 200, path)
    assert.equal((await admin.get('/tokens')).status, 200)
    assert.equal((await admin.delete(`/repos/${name}`)).status, 204)
  }

  test('a running server goes on after a migration that only adds, and another one starts', async () => {
    for (let round = 0; round < 3; round++) await use(site.service, `before-${round}`)
    const newer = () => columns.map((table) => `alter table ${table} add column newer integer`)
    const db = await connect({ dataDir: '', url, log })
    await migrate(db, 'postgres', [...migrations, newer])
    await db.destroy()
    for (let round = 0; round < 3; round++) await use(site.service, `after-${round}`)

    const dataDir = join(folder, 'another')
    await using another = await startService({ env: site.env, dataDir })
    await use(another, 'another')
    const env = { ...site.env, SVC_DATA_DIR: dataDir }
    assert.equal((await runSvc(['repos', 'list'], env)).code, 0)
    const found = await examine({ dataDir, env: site.env, args: ['--no-fsck'] })
    assert.match(found.of('database')[0]?.found ?? '', /of a newer svc, beside which this one can/)
    const backup = await runSvc(['backup', join(folder, 'backup')], env)
    assert.match(backup.err, /migrated by a newer svc .* back up with that version/)
  })

  test('a server does not start on tables that it cannot run on', async () => {
    await query('update schema_version set oldest_server = version')
    await assert.rejects(startService({ env: site.env }), /created by a newer svc/)
    await query(`update schema_version set oldest_server = 1, version = ${migrations.length}`)
  })

  test('a migration that changes something waits until no older server runs', async () => {
    const older = migrations.length - 9
    await query(`update schema_version set version = ${older}`)
    await assert.rejects(
      startService({ env: site.env }),
      /servers of an older version run on it.* Stop all of them/,
    )
    await query(`update schema_version set version = ${migrations.length}`)
  })
})
