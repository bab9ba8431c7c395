import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readdirSync, readlinkSync } from 'node:fs'
import { open, rm, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { finished } from 'node:stream/promises'
import { test } from 'node:test'
import { createBufferSink } from '../../../test/support/buffer-sink.ts'
import { until } from '../../../test/support/condition.ts'
import { temporaryFolder } from '../../../test/support/git.ts'
import { createCacheStore } from './cache-store.ts'
import { createResponsePipe } from './response-pipe.ts'

const kib = 1024
const mib = 1024 * kib

test('the least recently used response is evicted first when the cache is full', async () => {
  await using fixture = await createFixture({ maxBytes: 4 * mib })
  for (const key of ['a', 'b', 'c', 'd']) await fixture.put(key, mib)
  assert.ok(fixture.store.find('a'))
  await fixture.put('e', mib)
  assert.deepEqual(fixture.present('a', 'b', 'c', 'd', 'e'), ['a', 'c', 'd', 'e'])
  assert.deepEqual(fixture.store.count(), { entries: 4, bytes: 4 * mib })
})

test('a response may take half of the cache at most, and a cache of size 0 accepts none', async () => {
  await using fixture = await createFixture({ maxBytes: 4 * mib })
  for (const size of [1, 2 * mib, 2 * mib + 1, 0]) await fixture.put(`${size}`, size)
  assert.deepEqual(fixture.present('1', `${2 * mib}`, `${2 * mib + 1}`, '0'), ['1', `${2 * mib}`])
  await using none = await createFixture({ maxBytes: 0 })
  await none.put('one', 1)
  assert.deepEqual(none.present('one'), [])
})

test('a response is stored for maxAgeMs, and for seconds when it was requested once', async () => {
  await using fixture = await createFixture({ maxAgeMs: 3_600_000 })
  await fixture.put('twice', kib)
  await fixture.put('once', kib, false)
  await fixture.put('once and again', kib, false)
  fixture.clock.time += 9_000
  assert.ok(fixture.store.find('once and again'))
  fixture.clock.time += 2_000
  assert.deepEqual(fixture.present('once', 'twice', 'once and again'), ['twice', 'once and again'])
  fixture.clock.time += 3_600_000
  assert.deepEqual(fixture.present('twice', 'once and again'), [])
  assert.deepEqual(fixture.store.count(), { entries: 0, bytes: 0 })
})

test('a response that is requested again moves from memory to a file, and can be read meanwhile', async () => {
  await using fixture = await createFixture()
  const bytes = await fixture.put('key', mib, false)
  assert.equal(fixture.files(), 0)
  const pipe = fixture.store.find('key')
  assert.ok(pipe)
  assert.ok((await readAll(pipe)).equals(bytes))
  await until('it is in a file', pipe.hasFile)
  assert.ok((await readAll(pipe)).equals(bytes))
})

test('a sweep drops responses of deleted repositories, and their files', async () => {
  await using fixture = await createFixture()
  await fixture.put('key', mib)
  assert.equal(fixture.files(), 1)
  await fixture.store.sweep()
  assert.deepEqual(fixture.store.count(), { entries: 1, bytes: mib })
  await rm(fixture.directory, { recursive: true })
  await fixture.store.sweep()
  assert.deepEqual(fixture.store.count(), { entries: 0, bytes: 0 })
})

test('a response that is dropped while it is read can be read to its end, and is closed then', async () => {
  await using fixture = await createFixture()
  const bytes = await fixture.put('key', mib)
  const pipe = fixture.store.find('key')
  assert.ok(pipe)
  const reading = readAll(pipe)
  fixture.store.clear()
  assert.ok((await reading).equals(bytes))
  await fixture.untilClosed()
})

test('the number of open files is limited', async () => {
  await using fixture = await createFixture({ maxBytes: 2 ** 40 })
  for (let number = 0; number < 300; number++) await fixture.put(`key-${number}`, 65 * kib)
  assert.equal(fixture.store.count().entries, 256)
  await fixture.untilClosed(256)
})

test('small responses take no files, and little memory, however small they are', async () => {
  for (const [size, most] of [
    [64 * kib, 128],
    [32, 1400],
  ] as const) {
    await using fixture = await createFixture({ maxBytes: 2 ** 40 })
    for (let number = 0; number < 2000; number++) await fixture.put(`key-${number}`, size)
    assert.equal(fixture.files(), 0)
    const { entries } = fixture.store.count()
    assert.ok(entries <= most && entries > most / 2, `${entries}`)
    assert.deepEqual(fixture.present('key-0', 'key-1999'), ['key-1999'])
  }
})

async function createFixture({ maxBytes = 64 * mib, maxAgeMs = 60_000 } = {}) {
  const folder = await temporaryFolder()
  const clock = { time: 1_000_000, now: () => clock.time }
  const store = createCacheStore({ maxBytes, maxAgeMs, clock })
  let count = 0

  async function openFile() {
    const path = join(folder.path, `response-${count++}`)
    const file = await open(path, 'wx+')
    await unlink(path)
    return file
  }

  /** How many of its files are open. */
  function files(): number {
    return readdirSync('/proc/self/fd').filter((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`).startsWith(`${folder.path}/`)
      } catch {
        return false
      }
    }).length
  }

  return {
    clock,
    store,
    directory: folder.path,
    files,
    async put(key: string, size: number, isRepeated = true): Promise<Buffer> {
      const bytes = randomBytes(size)
      const spool = { open: openFile, isFull: () => false }
      const pipe = createResponsePipe({ spool, maxBytes, isRepeated: true })
      using _held = pipe.hold()
      await finished(pipe.output.end(bytes))
      pipe.end({ exitCode: 0, errorOutput: '', isExplained: false })
      await store.put({ id: key, directory: folder.path, isShallowClone: false }, pipe, {
        isRepeated,
      })
      return bytes
    },
    present: (...keys: string[]) => keys.filter((key) => store.find(key)),
    async untilClosed(left = 0): Promise<void> {
      await until('files are closed', () => files() === left)
    },
    async [Symbol.asyncDispose]() {
      store.clear()
      await folder[Symbol.asyncDispose]()
    },
  }
}

async function readAll(pipe: ReturnType<typeof createResponsePipe>): Promise<Buffer> {
  using reader = pipe.read()
  const sink = createBufferSink()
  await reader.copyTo(sink)
  return await sink.bytes()
}
