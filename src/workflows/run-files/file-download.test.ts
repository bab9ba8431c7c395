import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { open, writeFile } from 'node:fs/promises'
import { createServer, get, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { test } from 'node:test'
import { Problem } from '#base/problem.ts'
import { temporaryFolder } from '../../../test/support/git.ts'
import { FileDownload } from './downloads.ts'

const content = randomBytes(3_000_001)

async function downloadOf(bytes = content, stallMs = 10_000) {
  const folder = await temporaryFolder()
  const path = join(folder.path, 'file')
  await writeFile(path, bytes)
  const file = await open(path)
  const abort = new AbortController()
  const download = new FileDownload(file, { stallMs, signal: abort.signal })
  return {
    download,
    abort,
    async untilClosed() {
      if (!download.closed) await new Promise((resolve) => download.once('close', resolve))
      assert.equal(file.fd, -1)
    },
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  }
}

/** Requests a response that `send` sends. */
async function request(send: (response: ServerResponse) => void) {
  const server = createServer((_, response) => send(response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  // A TCP server's address is neither null nor a path once it listens.
  const { port } = server.address() as AddressInfo
  const sent = get({ host: '127.0.0.1', port, agent: false })
  // The type of the event.
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  return {
    response,
    [Symbol.dispose]() {
      sent.destroy()
      server.close()
    },
  }
}

test('a response gets a file through two buffers', async () => {
  for (const send of ['pipe', 'pipeline'] as const) {
    await using it = await downloadOf()
    const memory = new Set<ArrayBufferLike>()
    using got = await request((response) => {
      const write = response.write.bind(response)
      // Of the overloads, the one that is used.
      response.write = ((chunk: Buffer, done: () => void) => {
        memory.add(chunk.buffer)
        return write(chunk, done)
      }) as typeof response.write
      if (send === 'pipe') it.download.pipe(response)
      else pipeline(it.download, response).catch(() => {})
    })
    assert.ok((await buffer(got.response)).equals(content))
    assert.equal(memory.size, 2)
    await it.untilClosed()
  }
})

test('other streams get a file, too, and keep what they got', async () => {
  await using read = await downloadOf()
  assert.ok((await buffer(read.download)).equals(content))
  await using piped = await downloadOf()
  assert.ok((await buffer(piped.download.pipe(new PassThrough()))).equals(content))
  await using empty = await downloadOf(Buffer.alloc(0))
  using got = await request((response) => void empty.download.pipe(response))
  assert.equal((await buffer(got.response)).length, 0)
  await empty.untilClosed()
})

test('a download ends when its reader is gone, or reads nothing', async () => {
  const large = Buffer.alloc(50_000_000)
  await using left = await downloadOf(large)
  using gone = await request((response) => {
    pipeline(left.download, response).catch(() => {})
  })
  gone.response.destroy()
  await left.untilClosed()
  await using stalled = await downloadOf(large, 100)
  using _slow = await request((response) => void stalled.download.pipe(response))
  await assert.rejects(once(stalled.download, 'end'), isTimeout)
  await stalled.untilClosed()
  await using unread = await downloadOf(large, 100)
  unread.download.read(0)
  await assert.rejects(once(unread.download, 'end'), isTimeout)
  await unread.untilClosed()
})

test('a download ends with its signal', async () => {
  await using it = await downloadOf(Buffer.alloc(50_000_000))
  using _got = await request((response) => void it.download.pipe(response))
  it.abort.abort(new Error('over'))
  await assert.rejects(once(it.download, 'end'), /over/)
  await it.untilClosed()
})

function isTimeout(error: unknown): boolean {
  return error instanceof Problem && error.code === 'request_timed_out'
}
