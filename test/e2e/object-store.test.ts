import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { describe, test } from 'node:test'
import { createServer, getCACertificates, setDefaultCACertificates } from 'node:tls'
import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import { Sensitive } from '#base/sensitive.ts'
import { S3Error, type S3ErrorCode } from '#repositories/s3/s3-error.ts'
import { createAuthority } from '../support/certificates.ts'
import { freePort } from '../support/free-port.ts'
import { openObjectStore, withoutObjectStore } from '../support/object-store.ts'
import { without } from '../support/programs.ts'

const mib = 1024 * 1024
/** Small enough that objects of a few MiB have several parts and ranges. */
const smallParts = { maxPutBytes: mib, maxGetBytes: mib, partBytes: 5 * mib }

async function site(options = {}) {
  const store = await openObjectStore()
  const s3 = store.connect(options)
  const folder = await mkdtemp(join(tmpdir(), 'svc-test-'))
  return {
    store,
    s3,
    folder,
    async [Symbol.asyncDispose]() {
      await s3[Symbol.asyncDispose]()
      await store[Symbol.asyncDispose]()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

const sha256 = (content: Buffer) => createHash('sha256').update(content).digest('hex')

function isError(code: S3ErrorCode, text: RegExp) {
  return (error: unknown) => {
    assert.ok(error instanceof S3Error)
    assert.deepEqual([error.code, text.test(error.message)], [code, true], error.message)
    // Neither signatures nor the secret of Ceph.
    assert.ok(!/[\da-f]{64}|not-a-secret/i.test(error.message))
    return true
  }
}

describe('an object store', { skip: withoutObjectStore }, () => {
  test('objects of a buffer and of a file come back whole, with their hash', async () => {
    await using it = await site()
    const { s3, folder } = it
    for (const content of [Buffer.alloc(0), Buffer.from('pack'), randomBytes(300_000)]) {
      const [source, target] = [join(folder, 'source'), join(folder, `target-${content.length}`)]
      await writeFile(source, content)
      await s3.put(`a/file-${content.length}`, { path: source, bytes: content.length })
      await s3.put(`a/buffer-${content.length}`, content)
      const got = await s3.getToFile(`a/file-${content.length}`, target, content.length)
      assert.deepEqual(got, { sha256: sha256(content) })
      assert.deepEqual(await readFile(target), content)
      assert.deepEqual(await s3.get(`a/buffer-${content.length}`), content)
      assert.deepEqual(await s3.head(`a/file-${content.length}`), { bytes: content.length })
    }
    await s3.ping()
  })

  test('a large object is stored in parts and read in ranges', async () => {
    await using it = await site(smallParts)
    const { s3, folder } = it
    const content = randomBytes(11 * mib + 7)
    await writeFile(join(folder, 'source'), content)
    await s3.put('large', { path: join(folder, 'source'), bytes: content.length })
    const got = await s3.getToFile('large', join(folder, 'target'), content.length)
    assert.equal(got.sha256, sha256(content))
    assert.ok(content.equals(await readFile(join(folder, 'target'))))
    assert.deepEqual(await s3.head('large'), { bytes: content.length })
  })

  test('what is absent is undefined, an error or already deleted', async () => {
    await using it = await site()
    const { s3, folder } = it
    await s3.put('twice', Buffer.from('x'))
    await s3.delete('twice')
    await s3.delete('twice')
    assert.equal(await s3.head('twice'), undefined)
    await assert.rejects(s3.get('twice'), isError('absent', /^GetObject of .*twice failed: .*404/))
    await assert.rejects(
      s3.getToFile('twice', join(folder, 'target'), 1),
      isError('absent', /NoSuchKey/),
    )
    assert.deepEqual(await readdir(folder), [])
  })

  test('a listing of more than one page has every key below its prefix once', async () => {
    await using it = await site()
    const { s3 } = it
    const names = Array.from(
      { length: 1100 },
      (_, index) => `many/${String(index).padStart(4, '0')}`,
    )
    await s3.put('other', Buffer.from('other'))
    const before = Date.now() - 60_000
    await forEachConcurrently(16, names, (name) => s3.put(name, Buffer.from(name)))
    const listed = await Array.fromAsync(s3.list('many/'))
    assert.deepEqual(listed.map(({ key }) => key).sort(), names)
    assert.ok(listed.every(({ bytes, modifiedAt }) => bytes === 9 && modifiedAt > before))
    assert.deepEqual(await Array.fromAsync(s3.list('none/')), [])
  })

  test('an object of another size than expected is corrupt, and leaves no file', async () => {
    await using it = await site(smallParts)
    const { s3, folder } = it
    await s3.put('short', Buffer.from('short'))
    for (const bytes of [4, 6, 2 * mib]) {
      const got = s3.getToFile('short', join(folder, 'target'), bytes)
      await assert.rejects(got, isError('corrupt', /short has 5 bytes, not \d+/))
    }
    assert.deepEqual(await readdir(folder), [])
  })

  test('wrong credentials and a missing bucket are rejected at once, with the reason of the store', async () => {
    await using it = await site()
    const { store } = it
    const credentials = {
      accessKeyId: new Sensitive(store.env.SVC_STORE_ACCESS_KEY_ID ?? ''),
      secretAccessKey: new Sensitive('wrong'),
    }
    await using stranger = store.connect({ credentials })
    await assert.rejects(
      stranger.ping(),
      isError('rejected', /ListObjectsV2 failed: status 403, \w+/),
    )
    await assert.rejects(stranger.put('x', Buffer.from('x')), isError('rejected', /PutObject of/))
    const address = { ...store.address, bucket: 'svc-there-is-no-such-bucket' }
    await using lost = store.connect({ address })
    await assert.rejects(lost.ping(), isError('rejected', /NoSuchBucket/))
  })

  test('a store that cannot be reached is unavailable after some attempts', async () => {
    await using it = await site()
    const address = { ...it.store.address, endpoint: `http://127.0.0.1:${await freePort()}` }
    await using s3 = it.store.connect({ address, retryMs: 300 })
    await assert.rejects(s3.ping(), isError('unavailable', /ECONNREFUSED/))
  })

  test('an https endpoint needs a certificate of a trusted authority', {
    skip: without('openssl') || (process.env.SVC_TEST_S3 ? 'the certificate is for Ceph' : false),
  }, async () => {
    await using it = await site()
    const authority = await createAuthority(it.folder)
    const { port } = new URL(it.store.address.endpoint)
    const server = createServer(await authority.issue('localhost'), (client) => {
      const target = connect(Number(port), '127.0.0.1')
      pipeline(client, target, client).catch(() => {})
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    using _server = { [Symbol.dispose]: () => server.close() }
    // A TCP server's address is neither null nor a path once it listens.
    const endpoint = `https://localhost:${(server.address() as AddressInfo).port}`
    const address = { ...it.store.address, endpoint }
    await using stranger = it.store.connect({ address })
    await assert.rejects(stranger.ping(), isError('rejected', /certificate.*\([A-Z_]+\)$/))
    const trusted = getCACertificates('default')
    setDefaultCACertificates([await readFile(authority.path, 'utf8')])
    try {
      await using s3 = it.store.connect({ address })
      await s3.put('secure', Buffer.from('content'))
      assert.deepEqual(await it.s3.get('secure'), Buffer.from('content'))
      const large = randomBytes(3 * mib)
      await s3.put('large', large)
      const got = await s3.getToFile('large', join(it.folder, 'large'), large.length)
      assert.equal(got.sha256, sha256(large))
    } finally {
      setDefaultCACertificates(trusted)
    }
  })

  test('an aborted request ends with the reason of its signal', async () => {
    await using it = await site(smallParts)
    const content = Buffer.alloc(6 * mib)
    await writeFile(join(it.folder, 'source'), content)
    const source = { path: join(it.folder, 'source'), bytes: content.length }
    const reason = new Error('the client has gone')
    const signal = AbortSignal.abort(reason)
    await assert.rejects(it.s3.put('x', content, { signal }), reason)
    await assert.rejects(it.s3.put('x', source, { signal }), reason)
    await assert.rejects(it.s3.getToFile('x', join(it.folder, 'y'), 1, { signal }), reason)
    assert.equal(await it.s3.head('x'), undefined)
  })

  test('a file that has changed since is not stored', async () => {
    await using it = await site(smallParts)
    const path = join(it.folder, 'source')
    await writeFile(path, Buffer.alloc(6 * mib))
    await truncate(path, 5 * mib + 1)
    await assert.rejects(it.s3.put('x', { path, bytes: 6 * mib }), /instead of/)
    assert.equal(await it.s3.head('x'), undefined)
  })
})
