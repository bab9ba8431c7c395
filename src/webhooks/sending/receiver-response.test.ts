import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { readResponse, toRecorded } from './receiver-response.ts'

const { signal } = new AbortController()

test('the first 16 KiB of a response are kept, and no more than 64 KiB are read', async () => {
  let read = 0
  async function* endless() {
    for (;;) {
      read += 1024
      yield Buffer.alloc(1024, 'x')
    }
  }
  const text = await readResponse(Readable.from(endless(), { highWaterMark: 1 }), signal)
  assert.equal(text, 'x'.repeat(16_384))
  assert.ok(read <= 70_000, String(read))
})

test('invalid bytes are replaced, and an incomplete character at the end is omitted', async () => {
  const read = (bytes: Buffer) => readResponse(Readable.from([bytes]), signal)
  assert.equal(await read(Buffer.from([0x61, 0, 0xff, 0x62])), 'a\ufffd\ufffdb')
  assert.equal(await read(Buffer.from('ab€').subarray(0, 4)), 'ab')
  assert.equal(await read(Buffer.alloc(0)), '')
})

test('a response that breaks off yields what has arrived', async () => {
  async function* breaking() {
    yield Buffer.from('half')
    throw new Error('reset')
  }
  assert.equal(await readResponse(Readable.from(breaking()), signal), 'half')
})

test('reading a response ends when the server stops', async () => {
  const stopping = new AbortController()
  const silent = new Readable({ read() {} })
  silent.push('so far')
  const reading = readResponse(silent, stopping.signal)
  setImmediate(() => stopping.abort())
  assert.equal(await reading, 'so far')
})

test('headers are recorded up to 8 KiB, and cookies are not', () => {
  const headers = { 'set-cookie': ['session=1'], server: 'nginx', via: ['a', 'b'] }
  assert.deepEqual(toRecorded(headers), { 'set-cookie': '[hidden]', server: 'nginx', via: 'a, b' })
  const many = Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`h${n}`, 'x'.repeat(500)]))
  assert.equal(Object.keys(toRecorded(many)).length, 16)
})
