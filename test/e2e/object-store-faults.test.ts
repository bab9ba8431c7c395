// Tags: exhaustive
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import { S3Error } from '#repositories/s3/s3-error.ts'
import { startCeph } from '../support/ceph.ts'
import { temporaryFolder } from '../support/git.ts'
import { openObjectStore } from '../support/object-store.ts'
import { without } from '../support/programs.ts'
import { startTcpProxy, type Treatment } from '../support/tcp-proxy.ts'

const mib = 1024 * 1024
/** Small enough that objects of a few MiB have several parts and ranges. */
const smallParts = { maxPutBytes: mib, maxGetBytes: mib, partBytes: 5 * mib }

/** A store behind a proxy that treats its connections in some way, and a folder. */
async function behindProxy(treat: (connection: number) => Treatment, options = {}) {
  await using stack = new AsyncDisposableStack()
  const store = stack.use(await openObjectStore())
  const folder = stack.use(await temporaryFolder()).path
  const { port } = new URL(store.address.endpoint)
  const proxy = stack.use(await startTcpProxy(Number(port), treat))
  const address = { ...store.address, endpoint: `http://127.0.0.1:${proxy.port}` }
  const s3 = stack.use(store.connect({ address, ...smallParts, ...options }))
  const parts = stack.move()
  return {
    s3,
    store,
    target: join(folder, 'target'),
    /** Writes a file of random bytes. */
    async source(bytes: number) {
      const path = join(folder, 'source')
      const content = randomBytes(bytes)
      await writeFile(path, content)
      return { path, bytes, content }
    },
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  }
}

type Side = 'client' | 'server'

/** Passes a number of bytes of a side, over all connections, and then has the next chunk treated once. */
function createFaults(treat: (chunk: Buffer) => Buffer | undefined) {
  const left = { client: Number.POSITIVE_INFINITY, server: Number.POSITIVE_INFINITY }
  let count = 0
  const filter = (side: Side) => (chunk: Buffer) => {
    left[side] -= chunk.length
    if (left[side] >= 0) return chunk
    left[side] = Number.POSITIVE_INFINITY
    count++
    return treat(chunk)
  }
  return {
    /** Bytes until the next fault. */
    left,
    count: () => count,
    treat: () => ({ fromClient: filter('client'), fromServer: filter('server') }),
  }
}

const cut = () => undefined
const nothing = Buffer.alloc(0)
const noSuchUpload = Buffer.from(
  'HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 40\r\n\r\n' +
    '<Error><Code>NoSuchUpload</Code></Error>',
)

function changeLastBit(chunk: Buffer): Buffer {
  const changed = Buffer.from(chunk)
  const last = changed.length - 1
  changed.writeUInt8(changed.readUInt8(last) ^ 1, last)
  return changed
}

const sha256 = (content: Buffer) => createHash('sha256').update(content).digest('hex')

describe('an object store behind a faulty network', {
  skip: process.env.SVC_TEST_S3 ? 'the proxy is to Ceph' : without('ceph'),
}, () => {
  for (const bytes of [mib, 11 * mib]) {
    test(`sends and receives ${bytes / mib} MiB over connections that are cut`, async () => {
      const faults = createFaults(cut)
      await using it = await behindProxy(faults.treat)
      const source = await it.source(bytes)
      faults.left.client = 700_000
      await it.s3.put('object', source)
      faults.left.server = 700_000
      const got = await it.s3.getToFile('object', it.target, bytes)
      assert.equal(got.sha256, sha256(source.content))
      assert.ok(source.content.equals(await readFile(it.target)))
      assert.equal(faults.count(), 2)
    })
  }

  test('repeats a request whose response does not come', async () => {
    let isSilent = false
    await using it = await behindProxy(
      (connection) => ({
        fromServer: (chunk) => (isSilent && connection === 0 ? nothing : chunk),
      }),
      { timeoutMs: 300 },
    )
    await it.s3.put('object', Buffer.from('content'))
    isSilent = true
    assert.deepEqual(await it.s3.get('object'), Buffer.from('content'))
  })

  test('repeats a request whose response is not HTTP', async () => {
    const faults = createFaults(() => nothing)
    await using it = await behindProxy(faults.treat)
    await it.s3.put('object', randomBytes(mib))
    faults.left.server = 0
    assert.equal((await it.s3.get('object')).length, mib)
    assert.equal(faults.count(), 1)
  })

  test('stores nothing that was changed on its way', async () => {
    const faults = createFaults(changeLastBit)
    await using it = await behindProxy(faults.treat)
    const source = await it.source(mib)
    faults.left.client = 700_000
    const isCorrupt = (error: unknown) => error instanceof S3Error && error.code === 'corrupt'
    await assert.rejects(it.s3.put('object', source), isCorrupt)
    assert.equal(await it.s3.head('object'), undefined)
  })

  test('shows by the hash that an object was changed on its way', async () => {
    const faults = createFaults(changeLastBit)
    await using it = await behindProxy(faults.treat)
    const source = await it.source(mib)
    await it.s3.put('object', source)
    faults.left.server = 700_000
    const got = await it.s3.getToFile('object', it.target, mib)
    assert.notEqual(got.sha256, sha256(source.content))
    assert.equal(got.sha256, sha256(await readFile(it.target)))
  })

  test('completes an upload in parts whose last response is lost', async () => {
    let repeatedAs: Buffer | undefined
    const lose = (chunk: Buffer) => {
      if (repeatedAs || !chunk.includes('CompleteMultipartUploadResult')) return chunk
      repeatedAs = noSuchUpload
      return undefined
    }
    // Ceph answers the repeated request like the first one; other stores do not know the upload any more.
    const answer = () => {
      const response = repeatedAs
      repeatedAs = nothing
      return response
    }
    await using it = await behindProxy((connection) => ({
      fromServer: connection === 0 ? lose : connection === 1 ? answer : (chunk) => chunk,
    }))
    const source = await it.source(3 * mib)
    await it.s3.put('object', source)
    assert.equal(repeatedAs, nothing)
    const got = await it.s3.getToFile('object', it.target, source.bytes)
    assert.equal(got.sha256, sha256(source.content))
  })

  test('keeps no parts of an upload that failed', async () => {
    const stop = new AbortController()
    const fromClient = (chunk: Buffer) => {
      if (chunk.includes('partNumber=2')) stop.abort()
      return chunk
    }
    await using it = await behindProxy(() => ({ fromClient }))
    const source = await it.source(11 * mib)
    await assert.rejects(it.s3.put('object', source, { signal: stop.signal }), {
      name: 'AbortError',
    })
    assert.deepEqual(await it.store.uploads(), [])
  })
})

test('an OSD that is killed under load loses nothing that was acknowledged', {
  skip: without('ceph'),
}, async () => {
  const ceph = await startCeph({ osds: 3 })
  await using _ceph = { [Symbol.asyncDispose]: ceph.stop }
  await using store = await openObjectStore(ceph.url)
  await using s3 = store.connect()
  const stored = new Map<string, Buffer>()
  await forEachConcurrently(4, Array(300).keys(), async (number) => {
    const content = randomBytes(20_000)
    if (number === 100) ceph.osds[0]?.kill('SIGKILL')
    await s3.put(`object-${number}`, content)
    stored.set(`object-${number}`, content)
  })
  for (const [key, content] of stored) assert.deepEqual(await s3.get(key), content)
  assert.equal(stored.size, 300)
})
