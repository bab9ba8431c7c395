// Tags: exhaustive
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { type App, openExistingApp } from '#app.ts'
import { dayMs } from '#base/clock.ts'
import { createLog } from '#base/log.ts'
import { newTokenString } from '#base/token-string.ts'
import { readSettings } from '#config/settings.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { createProject, temporaryFolder } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { type Client, type Service, startService } from '../support/service.ts'
import { smallDisk, withoutMounts } from '../support/small-disk.ts'
import { testSettings } from '../support/test-settings.ts'

const mib = 1024 * 1024

/** Does what the server does once a minute. */
async function sweep(env: Record<string, string>, prepare: (app: App) => Promise<unknown>) {
  const settings = readSettings({ ...testSettings, ...env })
  const log = createLog({ level: 'silent', output: process.stderr })
  const path = process.env.PATH ?? ''
  await using app = await openExistingApp({ settings, log, path, version: '0.0.0' })
  await prepare(app)
  await app.deletedRepositories.sweep()
}

async function namesOf(client: Client): Promise<string[]> {
  const { body } = await client.get('/deleted-repos')
  return body.map(({ name }: { name: string }) => name)
}

async function createAndDelete(service: Service, names: string[]): Promise<string[]> {
  const paths: string[] = []
  for (const name of names) {
    await service.admin.post('/repos', { name })
    paths.push((await service.admin.get(`/repos/${name}`)).body.path)
    await service.admin.delete(`/repos/${name}`)
  }
  return paths.map((path) => join(service.dataDir, 'deleted', basename(path)))
}

for (const isPostgres of [false, true]) {
  const on = isPostgres ? 'PostgreSQL' : 'SQLite'
  test(`on ${on}, a deleted repository is purged after its time`, {
    skip: isPostgres && without('postgres'),
  }, async () => {
    await using stack = new AsyncDisposableStack()
    const { path } = stack.use(await temporaryFolder())
    const database = isPostgres ? await createPostgresDatabase() : undefined
    if (database) stack.defer(database.drop)
    const env = {
      SVC_ADMIN_TOKEN: newTokenString(),
      ...(database && { SVC_DATABASE_URL: database.url }),
    }
    const service = stack.use(await startService({ dataDir: join(path, 'data'), env }))
    const folders = await createAndDelete(service, ['old', 'half', 'new'])
    const here = { ...env, SVC_DATA_DIR: service.dataDir }
    const ageDays = async ({ db }: App, name: string, days: number, state: 'deleted' | 'purging') =>
      db
        .updateTable('repositories')
        .set({ state, deletedAt: Date.now() - days * dayMs })
        .where('name', '=', name)
        .execute()
    await sweep(here, async (app) => {
      await ageDays(app, 'old', 7, 'deleted')
      await ageDays(app, 'new', 6.9, 'deleted')
      // What a crash has interrupted is finished.
      await ageDays(app, 'half', 1, 'purging')
    })
    assert.deepEqual(await namesOf(service.admin), ['new'])
    assert.deepEqual(folders.map(existsSync), [false, false, true])
    const { body } = await service.admin.get('/events?kind=repository.purged')
    const purged = body.map(({ actor, data }: { actor: { username: string }; data: object }) => [
      actor.username,
      data,
    ])
    assert.deepEqual(purged, [
      ['svc', { name: 'half', ownerUsername: 'admin' }],
      ['svc', { name: 'old', ownerUsername: 'admin' }],
    ])
    await sweep({ ...here, SVC_DELETED_RETENTION_DAYS: '0' }, async () => {})
    assert.deepEqual(await namesOf(service.admin), [])
  })
}

test('without retention, a repository is removed at once, with its rows', async () => {
  await using service = await startService({ env: { SVC_DELETED_RETENTION_DAYS: '0' } })
  const [folder = ''] = await createAndDelete(service, ['site'])
  assert.ok(!existsSync(folder))
  assert.deepEqual(await namesOf(service.admin), [])
  const { body } = await service.admin.get('/events?kind=repository.deleted,repository.purged')
  assert.deepEqual(
    body.map(({ kind }: { kind: string }) => kind),
    ['repository.deleted'],
  )
})

test('on a nearly full disk the oldest deleted repositories are purged, and the log says so', {
  skip: await withoutMounts(),
}, async () => {
  await using disk = await smallDisk('96m')
  const env = { SVC_FREE_SPACE_MIN: '8MiB' }
  await using service = await startService({ dataDir: join(disk.path, 'data'), env })
  const { admin } = service
  await using project = await createProject()
  const names = ['first', 'second', 'third']
  for (const name of names) {
    await admin.post('/repos', { name })
    await writeFile(join(project.path, name), randomBytes(8 * mib))
    await project.git('add', '.')
    await project.git('commit', '--quiet', '-m', name)
    await project.git('push', '--quiet', admin.remote(name), 'HEAD:main')
  }
  for (const name of ['second', 'first']) await admin.delete(`/repos/${name}`)
  assert.deepEqual(await namesOf(admin), ['first', 'second'])
  await disk.fill(4 * mib)
  assert.equal((await admin.delete('/repos/third')).status, 204)
  assert.deepEqual(await namesOf(admin), ['first', 'third'])
  assert.match(service.log(), /"name":"second".*deleted repository purged before its time/)
  assert.equal((await admin.post('/repos', { name: 'fresh' })).status, 201)
})
