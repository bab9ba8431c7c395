// Tags: exhaustive
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { newTokenString } from '#base/token-string.ts'
import { until } from '../support/condition.ts'
import { createProject, git, type Project } from '../support/git.ts'
import { openObjectStore, withoutObjectStore } from '../support/object-store.ts'
import { type Postgres, startPostgres } from '../support/postgres.ts'
import { without } from '../support/programs.ts'
import { type Service, startService, toAnswer } from '../support/service.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'

const largeBytes = 200 * 1024

describe('when a part of a shared store is away', {
  skip: without('postgres') || withoutObjectStore,
}, () => {
  const resources = new AsyncDisposableStack()
  let project: Project
  let postgres: Postgres
  let env: Record<string, string>
  let service: Service
  let isAway = false

  before(async () => {
    const started = await startPostgres()
    assert.ok(started)
    postgres = started
    resources.defer(() => postgres.stop())
    const store = resources.use(await openObjectStore())
    const url = new URL(store.env.SVC_STORE ?? '')
    const endpoint = new URL(url.searchParams.get('endpoint') ?? '')
    const cut = () => (isAway ? undefined : true)
    const pass = (chunk: Buffer) => cut() && chunk
    const proxy = resources.use(
      await startTcpProxy(Number(endpoint.port), () => ({ fromClient: pass, fromServer: pass })),
    )
    url.searchParams.set('endpoint', `http://127.0.0.1:${proxy.port}`)
    env = {
      ...store.env,
      SVC_STORE: url.href,
      SVC_DATABASE_URL: postgres.url,
      SVC_ADMIN_TOKEN: newTokenString(),
      SVC_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
      SVC_SSH_PORT: 'off',
    }
    project = resources.use(await createProject())
    service = resources.use(await startService({ env }))
    await service.admin.post('/repos', { name: 'site' })
    await commitLarge('first')
    await project.git('push', '--quiet', service.admin.remote('site'), 'HEAD:main')
  })

  after(() => resources.disposeAsync())

  async function commitLarge(name: string): Promise<void> {
    await writeFile(join(project.path, name), randomBytes(largeBytes))
    await project.git('add', name)
    await project.git('commit', '--quiet', '-m', name)
  }

  async function mainOf({ admin }: Service): Promise<string> {
    const { stdout } = await git('/', ['ls-remote', admin.remote('site'), 'refs/heads/main'])
    return stdout.slice(0, 40)
  }

  test('without the bucket, small pushes and reads of what is cached go on', async () => {
    isAway = true
    const small = await project.commit('small.txt')
    await project.git('push', '--quiet', service.admin.remote('site'), 'HEAD:main')
    assert.equal(await mainOf(service), small)
    await git(project.path, [
      'clone',
      '--quiet',
      '--bare',
      service.admin.remote('site'),
      'copy.git',
    ])
  })

  test('without the bucket, health is 503 and names the object store', async () => {
    const answer = await until('health is 503', async () => {
      const health = await toAnswer(await fetch(`${service.url}/health`))
      return health.status === 503 && health
    })
    assert.equal(answer.body.code, 'storage_unavailable')
    assert.match(answer.body.detail, /object store/)
  })

  test('without the bucket, large pushes fail with the reason, and change nothing', async () => {
    const main = await mainOf(service)
    await commitLarge('second')
    await assert.rejects(
      project.git('push', '--quiet', service.admin.remote('site'), 'HEAD:main'),
      /Nothing was changed/,
    )
    assert.equal(await mainOf(service), main)
    // What was uploaded is deleted soon, not after an hour.
    const client = new pg.Client({ connectionString: postgres.url })
    await client.connect()
    const { rows } = await client.query('select state from uploads').finally(() => client.end())
    assert.deepEqual(rows, [{ state: 'dead' }])
  })

  test('without the bucket, a node without a cache says why it cannot serve', async () => {
    await using empty = await startService({ env })
    await assert.rejects(git('/', ['ls-remote', empty.admin.remote('site')]), /error: 503/)
    const { status, text } = await empty.admin.get('/repos/site')
    assert.equal(status, 503)
    assert.match(text, /storage_unavailable/)
  })

  test('once the bucket is back, everything works', async () => {
    isAway = false
    await until('health is 200', async () => (await fetch(`${service.url}/health`)).status === 200)
    await project.git('push', '--quiet', service.admin.remote('site'), 'HEAD:main')
    await using empty = await startService({ env })
    assert.equal(await mainOf(empty), await project.git('rev-parse', 'HEAD'))
  })

  test('without the database every request is answered with 503, and /health says why', async () => {
    postgres.halt()
    const health = await fetch(`${service.url}/health`)
    assert.equal(health.status, 503)
    assert.match(await health.text(), /database_unavailable/)
    assert.equal((await service.admin.get('/repos/site')).status, 503)
    await assert.rejects(mainOf(service), /503/)
    postgres.resume()
    assert.equal(await mainOf(service), await project.git('rev-parse', 'HEAD'))
  })
})
