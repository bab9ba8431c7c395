import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { createLog } from '#base/log.ts'
import { Sensitive } from '#base/sensitive.ts'
import { temporaryFolder } from '../../../test/support/git.ts'
import { createS3 } from './s3.ts'
import { S3Error } from './s3-error.ts'

const mib = 1024 * 1024
const content = randomBytes(5 * mib + 1)
const sha256 = createHash('sha256').update(content).digest('hex')

type Requested = { start: number; end: number; number: number; response: ServerResponse }

/** A store with one object, which handles requests for ranges in some way, and a client. */
async function site(respond: (requested: Requested) => void) {
  await using stack = new AsyncDisposableStack()
  const folder = stack.use(await temporaryFolder()).path
  const sockets = new Set<string>()
  let number = 0
  const server = createServer(({ headers, socket }, response) => {
    const [, start = '', end = ''] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? '') ?? []
    sockets.add(`${socket.remotePort}`)
    respond({ start: Number(start), end: Number(end) + 1, number: number++, response })
  })
  server.listen(0, '127.0.0.1')
  stack.defer(() => server.closeAllConnections())
  stack.defer(() => {
    server.close()
  })
  await once(server, 'listening')
  // A TCP server's address is neither null nor a path once it listens.
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const s3 = stack.use(
    createS3({
      address: { endpoint, bucket: 'bucket', prefix: '', region: 'us-east-1' },
      credentials: { accessKeyId: new Sensitive('id'), secretAccessKey: new Sensitive('secret') },
      log: createLog({ level: 'silent', output: process.stderr }),
      maxGetBytes: mib,
      partBytes: mib,
      retryMs: 300,
    }),
  )
  const owned = stack.move()
  return {
    s3,
    folder,
    target: join(folder, 'target'),
    connections: () => sockets.size,
    requests: () => number,
    get: (options = {}) => s3.getToFile('key', join(folder, 'target'), content.length, options),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

function sendRange({ start, end, response }: Requested, headers = {}): void {
  response.writeHead(206, {
    'content-range': `bytes ${start}-${end - 1}/${content.length}`,
    'content-length': end - start,
    ...headers,
  })
  response.end(content.subarray(start, end))
}

test('the ranges of an object come over some connections, which are used again', async () => {
  await using it = await site(sendRange)
  assert.deepEqual(await it.get(), { sha256 })
  assert.ok(content.equals(await readFile(it.target)))
  assert.equal(it.requests(), 6)
  await it.s3.getToFile('key', join(it.folder, 'again'), content.length)
  assert.equal(it.requests(), 12)
  assert.ok(it.connections() < 12, `${it.connections()} connections`)
})

test('ranges in any other form of response are read as well', async () => {
  await using it = await site(({ start, end, response }) => {
    // Without a length, it is chunked.
    response.writeHead(206, { 'content-range': `bytes ${start}-${end - 1}/${content.length}` })
    response.end(content.subarray(start, end))
  })
  assert.deepEqual(await it.get(), { sha256 })
  assert.ok(content.equals(await readFile(it.target)))
})

test('a store that asks for patience during a download is asked again', async () => {
  await using it = await site((requested) => {
    if (requested.number !== 2) sendRange(requested)
    else requested.response.writeHead(503).end('<Error><Code>SlowDown</Code></Error>')
  })
  assert.deepEqual(await it.get(), { sha256 })
})

test('a download over connections that are reset all the time ends, and leaves no file', async () => {
  await using it = await site(({ response }) => response.socket?.resetAndDestroy())
  await assert.rejects(
    it.get(),
    (error) => error instanceof S3Error && error.code === 'unavailable',
  )
  assert.deepEqual(await readdir(it.folder), [])
})

test('an object that is gone in the middle of a download is absent, and leaves no file', async () => {
  await using it = await site((requested) => {
    if (requested.number < 2) sendRange(requested)
    else requested.response.writeHead(404).end('<Error><Code>NoSuchKey</Code></Error>')
  })
  await assert.rejects(it.get(), (error) => error instanceof S3Error && error.code === 'absent')
  assert.deepEqual(await readdir(it.folder), [])
})

test('a download is aborted with the reason of its signal, and leaves no file', async () => {
  const stop = new AbortController()
  const reason = new Error('the client has gone')
  await using it = await site((requested) => {
    if (requested.number < 2) sendRange(requested)
    else stop.abort(reason)
  })
  await assert.rejects(it.get({ signal: stop.signal }), reason)
  assert.deepEqual(await readdir(it.folder), [])
})

test('a client that is disposed of ends its downloads', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  await using it = await site(() => resolve())
  const download = it.get()
  await promise
  await Promise.all([assert.rejects(download, S3Error), it.s3[Symbol.asyncDispose]()])
  assert.deepEqual(await readdir(it.folder), [])
})
