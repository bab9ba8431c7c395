import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readdirSync, readlinkSync } from 'node:fs'
import { open, rm, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { finished } from 'node:stream/promises'
import { test } from 'node:test'
import { until } from '../../../test/support/condition.ts'
import { temporaryFolder } from '../../../test/support/git.ts'
import { createCacheStore } from './cache-store.ts'
import { createResponsePipe } from './response-pipe.ts'

const kib = 1024
const mib = 1024 * kib

test('what was not asked for the longest goes first when there is no room', async () => {
  await using site = await createSite({ maxBytes: 4 * mib })
  for (const key of ['a', 'b', 'c', 'd']) await site.put(key, mib)
  assert.ok(site.kept.find('a'))
  await site.put('e', mib)
  assert.deepEqual(site.present('a', 'b', 'c', 'd', 'e'), ['a', 'c', 'd', 'e'])
  assert.deepEqual(site.kept.count(), { entries: 4, bytes: 4 * mib })
})

test('no answer takes more than half of the room, and without room none is taken', async () => {
  const { kept } = await createSite({ maxBytes: 4 * mib })
  assert.deepEqual([1, 2 * mib, 2 * mib + 1, 0].map(kept.takes), [true, true, false, false])
  const { kept: none } = await createSite({ maxBytes: 0 })
  assert.equal(none.takes(1), false)
})

test('an answer is kept for as long as is said, and for seconds when it was asked for once', async () => {
  await using site = await createSite({ maxAgeMs: 3_600_000 })
  await site.put('twice', kib)
  await site.put('once', kib, false)
  await site.put('once and again', kib, false)
  site.clock.time += 9_000
  assert.ok(site.kept.find('once and again'))
  site.clock.time += 2_000
  assert.deepEqual(site.present('once', 'twice', 'once and again'), ['twice', 'once and again'])
  site.clock.time += 3_600_000
  assert.deepEqual(site.present('twice', 'once and again'), [])
  assert.deepEqual(site.kept.count(), { entries: 0, bytes: 0 })
})

test('what is asked for again moves from memory to a file, and can be read meanwhile', async () => {
  await using site = await createSite()
  const bytes = await site.put('key', mib, false)
  assert.equal(site.files(), 0)
  const pipe = site.kept.find('key')
  assert.ok(pipe)
  assert.ok((await readAll(pipe)).equals(bytes))
  await until('it is in a file', pipe.hasFile)
  assert.ok((await readAll(pipe)).equals(bytes))
})

test('answers of repositories that are gone go soon, and their files with them', async () => {
  await using site = await createSite()
  await site.put('key', mib)
  assert.equal(site.files(), 1)
  await site.kept.sweep()
  assert.deepEqual(site.kept.count(), { entries: 1, bytes: mib })
  await rm(site.directory, { recursive: true })
  await site.kept.sweep()
  assert.deepEqual(site.kept.count(), { entries: 0, bytes: 0 })
})

test('what is dropped while somebody reads it can be read to its end, and is closed then', async () => {
  await using site = await createSite()
  const bytes = await site.put('key', mib)
  const pipe = site.kept.find('key')
  assert.ok(pipe)
  const reading = readAll(pipe)
  site.kept.clear()
  assert.ok((await reading).equals(bytes))
  await site.untilClosed()
})

test('few files are open at a time', async () => {
  await using site = await createSite({ maxBytes: 2 ** 40 })
  for (let number = 0; number < 300; number++) await site.put(`key-${number}`, 65 * kib)
  assert.equal(site.kept.count().entries, 256)
  await site.untilClosed(256)
})

test('small answers take no files, and little memory, of however few bytes they are', async () => {
  for (const [size, most] of [
    [64 * kib, 128],
    [32, 1400],
  ] as const) {
    await using site = await createSite({ maxBytes: 2 ** 40 })
    for (let number = 0; number < 2000; number++) await site.put(`key-${number}`, size)
    assert.equal(site.files(), 0)
    const { entries } = site.kept.count()
    assert.ok(entries <= most && entries > most / 2, `${entries}`)
    assert.deepEqual(site.present('key-0', 'key-1999'), ['key-1999'])
  }
})

async function createSite({ maxBytes = 64 * mib, maxAgeMs = 60_000 } = {}) {
  const folder = await temporaryFolder()
  const clock = { time: 1_000_000, now: () => clock.time }
  const kept = createCacheStore({ maxBytes, maxAgeMs, clock })
  let count = 0

  async function openFile() {
    const path = join(folder.path, `answer-${count++}`)
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
    kept,
    directory: folder.path,
    files,
    async put(key: string, size: number, isRepeated = true): Promise<Buffer> {
      const bytes = randomBytes(size)
      const pipe = createResponsePipe({ openFile, isWanted: () => true, onUnread() {} })
      using _held = pipe.hold()
      await finished(pipe.output.end(bytes))
      pipe.end({ exitCode: 0, complaint: '', isExplained: false })
      await kept.put(key, pipe, { directory: folder.path, isRepeated })
      return bytes
    },
    present: (...keys: string[]) => keys.filter((key) => kept.find(key)),
    async untilClosed(left = 0): Promise<void> {
      await until('files are closed', () => files() === left)
    },
    async [Symbol.asyncDispose]() {
      kept.clear()
      await folder[Symbol.asyncDispose]()
    },
  }
}

async function readAll(pipe: ReturnType<typeof createResponsePipe>): Promise<Buffer> {
  using reader = pipe.read()
  const pieces: Buffer[] = []
  for (;;) {
    const piece = await reader.next(new AbortController().signal)
    if (!piece) return Buffer.concat(pieces)
    pieces.push(Buffer.from(piece.bytes))
    piece.done()
  }
}
