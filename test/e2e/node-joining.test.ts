// Tags: exhaustive
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { cp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { newTokenString } from '#base/token-string.ts'
import { runSvc } from '../support/command.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { examine } from '../support/doctor.ts'
import { freePort } from '../support/free-port.ts'
import { createProject, temporaryFolder } from '../support/git.ts'
import { type ObjectStore, openObjectStore, withoutObjectStore } from '../support/object-store.ts'
import { without } from '../support/programs.ts'
import { type Service, startService } from '../support/service.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'

type Environment = Record<string, string>

const newKey = () => randomBytes(32).toString('base64')

describe('a server that does not belong to the service', {
  skip: without('postgres') || withoutObjectStore,
}, () => {
  const resources = new AsyncDisposableStack()
  let folder: string
  let objects: ObjectStore
  let elsewhere: ObjectStore
  let env: Environment
  let service: Service
  let directories = 0

  before(async () => {
    folder = resources.use(await temporaryFolder()).path
    objects = resources.use(await openObjectStore())
    elsewhere = resources.use(await openObjectStore())
    env = await newService(objects)
    service = resources.use(await startService({ env, dataDir: newDirectory() }))
  })

  after(() => resources.disposeAsync())

  const newDirectory = () => join(folder, `node-${directories++}`)

  /** Settings of a service with a database and keys of its own. */
  async function newService(bucket: ObjectStore, options = {}): Promise<Environment> {
    const database = await createPostgresDatabase(options)
    resources.defer(() => database.drop())
    return {
      ...bucket.env,
      SVC_DATABASE_URL: database.url,
      SVC_ADMIN_TOKEN: newTokenString(),
      SVC_ENCRYPTION_KEY: newKey(),
      SVC_SSH_HOST_KEY_FILE: newHostKey(),
      SVC_SSH_PORT: '0',
    }
  }

  function newHostKey(): string {
    const file = join(folder, `host-key-${directories++}`)
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', file])
    return file
  }

  /** Starts a server that must refuse, and returns why. */
  async function refusalOf(more: Environment, dataDir = newDirectory()): Promise<string> {
    try {
      await using _joined = await startService({ env: { ...env, ...more }, dataDir })
    } catch (error) {
      return String(error)
    }
    throw new Error('The server has joined.')
  }

  function storeWith(change: (url: URL) => void, from = env): string {
    const url = new URL(from.SVC_STORE ?? '')
    change(url)
    return url.href
  }

  async function keysIn(bucket: ObjectStore): Promise<string[]> {
    await using client = bucket.connect()
    return await Array.fromAsync(client.list(''), ({ key }) => key)
  }

  async function query(text: string, { SVC_DATABASE_URL } = env): Promise<void> {
    const client = new pg.Client(SVC_DATABASE_URL)
    await client.connect()
    await client.query(text)
    await client.end()
  }

  /** Pushes what is too large for the database. */
  async function pushLarge({ admin }: Service, name: string): Promise<void> {
    await using project = await createProject()
    await writeFile(join(project.path, 'large'), randomBytes(200 * 1024))
    await project.git('add', '.')
    await project.git('commit', '--quiet', '-m', 'large')
    await admin.post('/repos', { name })
    await project.git('push', '--quiet', admin.remote(name), 'HEAD:main')
  }

  test('does not start with another prefix or bucket, and leaves nothing there', async () => {
    const wrong = { SVC_STORE: elsewhere.env.SVC_STORE ?? '' }
    assert.match(
      await refusalOf(wrong),
      /^svc: SVC_STORE: s3:\S+ is not that of this service: it lacks the object instance .* Set SVC_STORE as on the other servers/m,
    )
    assert.deepEqual(await keysIn(elsewhere), [])
    const found = await examine({
      dataDir: service.dataDir,
      env: { ...env, ...wrong },
      args: ['--no-fsck'],
    })
    assert.match(found.of('store')[0]?.found ?? '', /lacks the object instance/)

    await using _other = await startService({ env: await newService(elsewhere) })
    assert.match(await refusalOf(wrong), /has the id of another/)
  })

  test('does not start with a bucket that is absent, or an access key that is wrong', async () => {
    const absent = { SVC_STORE: storeWith((url) => (url.host = 'svc-absent')) }
    assert.match(await refusalOf(absent), /^svc: SVC_STORE: there is no bucket svc-absent at http/m)
    for (const name of ['SVC_STORE_ACCESS_KEY_ID', 'SVC_STORE_SECRET_ACCESS_KEY']) {
      assert.match(
        await refusalOf({ [name]: 'wrong' }),
        /^svc: SVC_STORE_ACCESS_KEY_ID, .* refuses them for the bucket/m,
      )
    }
  })

  test('does not start with another encryption key, although there is no secret', async () => {
    const wrong = { SVC_ENCRYPTION_KEY: newKey() }
    assert.match(
      await refusalOf(wrong),
      /^svc: SVC_ENCRYPTION_KEY: The service was set up with an encryption key that is not configured/m,
    )
    const found = await examine({
      dataDir: service.dataDir,
      env: { ...env, ...wrong },
      args: ['--no-fsck'],
    })
    assert.match(found.of('secrets')[0]?.fix ?? '', /svc secrets rotate/)
  })

  test('does not start with another SSH host key while others run', async () => {
    const wrong = { SVC_SSH_HOST_KEY_FILE: newHostKey() }
    assert.match(
      await refusalOf(wrong),
      /^svc: SVC_SSH_HOST_KEY_FILE: the server \S+ runs with another SSH host key/m,
    )
    const found = await examine({
      dataDir: service.dataDir,
      env: { ...env, ...wrong },
      args: ['--no-fsck'],
    })
    assert.match(found.of('instance')[0]?.found ?? '', /runs with another SSH host key/)
  })

  test('does not start on a copy of the data directory of one that runs', async () => {
    const copy = newDirectory()
    await cp(service.dataDir, copy, { recursive: true })
    assert.match(
      await refusalOf({}, copy),
      /^svc: Another server runs with the name of this data directory, .* empty directory/m,
    )
    const found = await examine({ dataDir: copy, env, args: ['--no-fsck'] })
    assert.match(found.of('instance')[0]?.found ?? '', /one is a copy of the other/)
    const healthy = await examine({ dataDir: service.dataDir, env, args: ['--no-fsck'] })
    for (const id of ['store', 'instance', 'secrets', 'keys'])
      assert.equal(healthy.of(id)[0]?.level, 'ok', id)
  })

  test('of first servers with different buckets and keys, those of one kind start', async () => {
    const first = await newService(elsewhere, { isEmpty: true })
    const { SVC_STORE = '' } = resources.use(await openObjectStore()).env
    const second = { ...first, SVC_STORE, SVC_ENCRYPTION_KEY: newKey() }
    const ends = await Promise.allSettled(
      [first, second, first, second].map((one) => startService({ env: one })),
    )
    const started = ends.flatMap((end, index) =>
      end.status === 'fulfilled' ? [{ index, server: end.value }] : [],
    )
    for (const { server } of started) await server[Symbol.asyncDispose]()
    const kinds = new Set(started.map(({ index }) => index % 2))
    assert.equal(kinds.size, 1, `started: ${started.map(({ index }) => index)}`)
  })

  test('is found, too, when the service was set up by a version that marked nothing', async () => {
    const bucket = resources.use(await openObjectStore())
    const old = await newService(bucket)
    {
      await using first = await startService({ env: old })
      await pushLarge(first, 'site')
      await first.end('SIGTERM')
    }
    await using client = bucket.connect()
    await client.delete('instance')
    await query('update instance set bucket = null, key_id = null', old)
    const wrong = resources.use(await openObjectStore())
    assert.match(
      await refusalOf({ ...old, SVC_STORE: wrong.env.SVC_STORE ?? '' }),
      /is not that of this service: it has no \S+\.pack/,
    )
    assert.deepEqual(await keysIn(wrong), [])
    await using again = await startService({ env: old })
    await again.end('SIGTERM')
    assert.ok((await keysIn(bucket)).includes('instance'))
    assert.match(
      await refusalOf({ ...old, SVC_ENCRYPTION_KEY: newKey() }),
      /was set up with an encryption key/,
    )
  })

  test('starts while the bucket does not respond, and stores nothing once another one does', async () => {
    const wrong = resources.use(await openObjectStore())
    const port = await freePort()
    const through = storeWith(
      (url) => url.searchParams.set('endpoint', `http://127.0.0.1:${port}`),
      wrong.env,
    )
    await using node = await startService({
      env: { ...env, SVC_STORE: through, SVC_SSH_PORT: 'off' },
    })
    assert.match(node.log(), /object store does not respond/)
    const endpoint = new URL(wrong.env.SVC_STORE ?? '').searchParams.get('endpoint') ?? ''
    using _proxy = await startTcpProxy(Number(new URL(endpoint).port), () => ({}), port)
    await assert.rejects(
      pushLarge(node, 'through'),
      /Nothing was changed: s3:\S+ is not that of this service/,
    )
    assert.deepEqual(await keysIn(wrong), [])
  })

  test('starts after a change of keys: rotation for the encryption key, a stop of all for the host key', async () => {
    const own = await newService(resources.use(await openObjectStore()))
    const dataDir = newDirectory()
    {
      await using first = await startService({ env: own, dataDir })
      await first.end('SIGTERM')
    }
    const changed = { ...own, SVC_SSH_HOST_KEY_FILE: newHostKey(), SVC_ENCRYPTION_KEY: newKey() }
    const both = `${changed.SVC_ENCRYPTION_KEY},${own.SVC_ENCRYPTION_KEY}`
    const rotated = await runSvc(['secrets', 'rotate'], {
      ...changed,
      SVC_ENCRYPTION_KEY: both,
      SVC_DATA_DIR: dataDir,
    })
    assert.equal(rotated.code, 0, rotated.err)
    assert.match(await refusalOf({ ...own }, dataDir), /was set up with an encryption key/)
    await using _node = await startService({ env: changed, dataDir })
    await using _other = await startService({ env: changed })
  })

  test('starts at once on the directory of one that was killed', async () => {
    const own = await newService(resources.use(await openObjectStore()))
    const dataDir = newDirectory()
    await using first = await startService({ env: own, dataDir })
    await first.end('SIGKILL')
    await using _again = await startService({ env: own, dataDir })
  })
})
