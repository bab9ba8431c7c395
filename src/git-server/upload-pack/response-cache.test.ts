import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import type { PipeEnd } from '#git/protocol/pipe-process.ts'
import { createBufferSink } from '../../../test/support/buffer-sink.ts'
import { until } from '../../../test/support/condition.ts'
import { temporaryFolder } from '../../../test/support/git.ts'
import type { FetchSource } from '../requests/operations.ts'
import { createResponseCache, type ResponseProducer } from './response-cache.ts'

const success: PipeEnd = { exitCode: 0, errorOutput: '', isExplained: false }

test('a response is produced once, for requests at the same time and for later ones', async () => {
  await using fixture = await createFixture()
  const producer = createProducer('pack')
  const [first, second] = [fixture.fetch('key', producer), fixture.fetch('key', producer)]
  assert.deepEqual(await Promise.all([first, second]), ['pack', 'pack'])
  assert.equal(await fixture.fetch('key', producer), 'pack')
  assert.equal(await fixture.fetch('other', createProducer('other pack')), 'other pack')
  assert.equal(producer.count, 1)
  assert.deepEqual(fixture.sources, ['miss', 'coalesced', 'hit', 'miss'])
})

test('a request without a key gets a response of its own', async () => {
  await using fixture = await createFixture()
  const producer = createProducer('pack')
  const both = [fixture.fetch(undefined, producer), fixture.fetch(undefined, producer)]
  assert.deepEqual(await Promise.all(both), ['pack', 'pack'])
  assert.equal(producer.count, 2)
  assert.deepEqual(fixture.sources, ['bypassed', 'bypassed'])
})

test('a failure of the producer reaches all its readers, and is not stored', async () => {
  await using fixture = await createFixture()
  const broken = createProducer('pa', () => Promise.reject(new Error('no git')))
  const both = [fixture.fetch('key', broken), fixture.fetch('key', broken)]
  for (const { status } of await Promise.allSettled(both)) assert.equal(status, 'rejected')
  const killed = createProducer('pa', async () => ({ ...success, exitCode: null }))
  assert.equal(await fixture.fetch('key', killed), 'pa')
  assert.equal(await fixture.fetch('key', createProducer('pack')), 'pack')
})

test('a request that waits for a permit joins an identical one that starts', async () => {
  await using fixture = await createFixture()
  const waits: ResponseProducer = {
    acquire: async (signal) => {
      await once(signal, 'abort')
      throw signal.reason
    },
    produce: () => assert.fail('it has no permit'),
  }
  const waiting = fixture.fetch('key', waits)
  const producer = createProducer('pack')
  assert.deepEqual(await Promise.all([waiting, fixture.fetch('key', producer)]), ['pack', 'pack'])
  assert.equal(producer.count, 1)
})

test('the producer is stopped when its last reader disconnects, and its permit is released', async () => {
  await using fixture = await createFixture()
  const stuck = createProducer('pa', async (signal) => {
    await once(signal, 'abort')
    throw signal.reason
  })
  const leave = new AbortController()
  const left = fixture.fetch('key', stuck, leave)
  setImmediate(() => leave.abort(new Error('disconnected')))
  await assert.rejects(left, /disconnected/)
  await stuck.released
  assert.equal(await fixture.fetch('key', createProducer('pack')), 'pack')
})

test('a shallow clone is stored at its first request, until it has not been used for some time', async () => {
  await using fixture = await createFixture()
  // Large enough for a file.
  const pack = 'pack'.repeat(100 * 1024)
  const [shallow, whole] = [createProducer(pack), createProducer(pack)]
  for (let times = 0; times < 4; times++) {
    assert.equal(await fixture.fetch('shallow', shallow, { isShallowClone: true }), pack)
    await fixture.fetch('whole', whole)
    await until('both are stored', () => fixture.count().entries === 2)
    fixture.clock.time += 50_000
  }
  assert.deepEqual([shallow.count, whole.count], [1, 2])
  fixture.clock.time += 60_000
  await fixture.fetch('shallow', shallow, { isShallowClone: true })
  assert.equal(shallow.count, 2)
})

async function createFixture() {
  const folder = await temporaryFolder()
  const sources: FetchSource[] = []
  const clock = { time: 0 }
  const cache = createResponseCache({
    settings: { dataDir: folder.path, fetchCacheBytes: 1024 * 1024, fetchCacheSeconds: 60 },
    freeSpace: { isShort: () => false, require: async () => {} },
    clock: { now: () => clock.time },
    onFetch: (source) => sources.push(source),
  })
  return {
    sources,
    clock,
    count: cache.count,
    async fetch(
      id: string | undefined,
      producer: ResponseProducer,
      { signal, isShallowClone = false }: { signal?: AbortSignal; isShallowClone?: boolean } = {},
    ) {
      const sink = createBufferSink()
      const key = id === undefined ? undefined : { id, directory: folder.path, isShallowClone }
      await cache.fetch(key, { ...sink, ...(signal && { signal }) }, producer)
      return (await sink.bytes()).toString()
    },
    async [Symbol.asyncDispose]() {
      cache[Symbol.dispose]()
      await folder[Symbol.asyncDispose]()
    },
  }
}

/** Writes a response that ends as `end` says. */
function createProducer(
  response: string,
  end: (signal: AbortSignal) => Promise<PipeEnd> = async () => success,
) {
  const released = Promise.withResolvers<void>()
  const producer = {
    count: 0,
    released: released.promise,
    acquire: async () => ({ [Symbol.dispose]: released.resolve }),
    produce: async ({ output, signal }: Parameters<ResponseProducer['produce']>[0]) => {
      producer.count += 1
      output.write(response)
      return await end(signal)
    },
  }
  return producer
}
