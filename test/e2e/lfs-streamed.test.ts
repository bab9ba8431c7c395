import assert from 'node:assert/strict'
import { hash, randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { createLog } from '#base/log.ts'
import { newTokenString } from '#base/token-string.ts'
import { openDatabase } from '#database/database.ts'
import { deleteUnneeded } from '#repositories/store/collector.ts'
import { until } from '../support/condition.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { type ObjectStore, openObjectStore, withoutObjectStore } from '../support/object-store.ts'
import { without } from '../support/programs.ts'
import { connectRaw } from '../support/raw-http.ts'
import { type Service, startService } from '../support/service.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'

const mib = 1024 * 1024
const maxBytes = 18 * mib
// Two parts, and some more.
const content = randomBytes(17 * mib)
const oid = hash('sha256', content)
const refusal = '<Error><Code>QuotaExceeded</Code></Error>'

describe('an LFS object that is stored in a bucket while it arrives', {
  skip: withoutObjectStore || without('postgres'),
}, () => {
  const resources = new AsyncDisposableStack()
  let database: Awaited<ReturnType<typeof createPostgresDatabase>>
  let store: ObjectStore
  let service: Service
  let env: Record<string, string>
  let isBucketFull = false

  before(async () => {
    database = await createPostgresDatabase()
    resources.defer(() => database.drop())
    store = resources.use(await openObjectStore())
    const url = new URL(store.env.SVC_STORE ?? '')
    const endpoint = new URL(url.searchParams.get('endpoint') ?? '')
    const proxy = resources.use(await startTcpProxy(Number(endpoint.port), refuseParts))
    url.searchParams.set('endpoint', `http://127.0.0.1:${proxy.port}`)
    env = {
      ...store.env,
      SVC_STORE: url.href,
      SVC_DATABASE_URL: database.url,
      SVC_ADMIN_TOKEN: newTokenString(),
      SVC_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
      SVC_LFS_OBJECT_MAX: String(maxBytes),
    }
    service = await startService({ env })
    resources.defer(() => service[Symbol.asyncDispose]())
    await service.admin.post('/repos', { name: 'site' })
  })

  after(() => resources.disposeAsync())

  /** A full bucket responds to the last part as Ceph does for a quota. */
  function refuseParts() {
    let isRefused = false
    return {
      fromClient(chunk: Buffer) {
        isRefused ||= isBucketFull && chunk.includes('partNumber=3')
        return chunk
      },
      fromServer(chunk: Buffer) {
        if (!isRefused) return chunk
        const head = `HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: ${refusal.length}`
        return Buffer.from(`${head}\r\n\r\n${refusal}`)
      },
    }
  }

  /** Sends all but the last bytes of an object, until the bucket has some of them. */
  async function begin(headers: Record<string, string | number>) {
    const connection = await connectRaw(service.url)
    connection.request(`PUT /repos/site.git/info/lfs/objects/${oid}`, {
      authorization: `Bearer ${service.adminToken}`,
      ...headers,
    })
    const start = content.subarray(0, -1)
    if ('content-length' in headers) connection.socket.write(start)
    else connection.chunk(start)
    await until('the bucket has a part', async () => (await store.uploads()).length > 0)
    assert.deepEqual(await stored(), [])
    return connection
  }

  async function stored(): Promise<string[]> {
    await using client = store.connect()
    return await Array.fromAsync(client.list('lfs/'), ({ key }) => key)
  }

  async function assertNothingLeft(): Promise<void> {
    assert.deepEqual([await store.uploads(), await stored()], [[], []])
    assert.deepEqual(await readdir(join(service.dataDir, 'staging')), [])
    const batch = { operation: 'download', objects: [{ oid, size: content.length }] }
    const { body } = await service.admin.post('/repos/site.git/info/lfs/objects/batch', batch)
    assert.equal(body.objects[0].error.code, 404)
  }

  const length = { 'content-length': content.length }

  test('is refused, and leaves nothing, when its bytes or their number are wrong', async () => {
    {
      using connection = await begin(length)
      connection.socket.write(Buffer.of((content.at(-1) ?? 0) ^ 1))
      const { status, body } = await connection.answer()
      assert.deepEqual([status, JSON.parse(body).code], [422, 'lfs_object_invalid'])
      await assertNothingLeft()
    }
    using connection = await begin({ 'transfer-encoding': 'chunked' })
    connection.chunk(Buffer.alloc(maxBytes))
    await connection.atLeast(1)
    assert.match(connection.received(), /^HTTP\/1\.1 413 /)
    await assertNothingLeft()
  })

  test('leaves nothing when its client goes away', async () => {
    {
      using _ = await begin(length)
    }
    await until('the parts are deleted', async () => (await store.uploads()).length === 0)
    const staging = join(service.dataDir, 'staging')
    await until('nothing is staged', async () => (await readdir(staging)).length === 0)
    await assertNothingLeft()
  })

  test('fails with the reason when the bucket is full, and leaves nothing', async () => {
    isBucketFull = true
    using connection = await begin(length)
    connection.socket.write(content.subarray(-1))
    const { status, body } = await connection.answer()
    isBucketFull = false
    assert.deepEqual([status, JSON.parse(body).code], [503, 'storage_unavailable'])
    assert.match(body, /QuotaExceeded/)
    await assertNothingLeft()
  })

  test('is deleted in parts when the server was killed, and is there after another upload', async () => {
    {
      using _ = await begin(length)
      await service.end('SIGKILL')
    }
    await service[Symbol.asyncDispose]()
    service = await startService({ env })
    assert.equal((await store.uploads()).length, 1)
    const client = new pg.Client({ connectionString: database.url })
    await client.connect()
    await client.query('update uploads set begun_at = 0').finally(() => client.end())
    const log = createLog({ level: 'silent', output: process.stderr })
    const db = await openDatabase({ dataDir: '', url: database.url, log })
    {
      await using storage = store.connect()
      await deleteUnneeded({ db, storage, log }).finally(() => db.destroy())
    }
    await assertNothingLeft()

    using connection = await begin(length)
    connection.socket.write(content.subarray(-1))
    assert.equal((await connection.answer()).status, 200)
    assert.deepEqual([await store.uploads(), (await stored()).length], [[], 1])
    const response = await fetch(`${service.url}/repos/site.git/info/lfs/objects/${oid}`, {
      headers: { authorization: `Bearer ${service.adminToken}` },
    })
    assert.ok(content.equals(Buffer.from(await response.arrayBuffer())))
  })
})
