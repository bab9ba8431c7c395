import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { finished } from 'node:stream/promises'
import { test } from 'node:test'
import { createBufferSink } from '../../../test/support/buffer-sink.ts'
import { until } from '../../../test/support/condition.ts'
import { temporaryFolder } from '../../../test/support/git.ts'
import { createRandom } from '../../../test/support/random.ts'
import { createResponsePipe, type ResponseReader } from './response-pipe.ts'

const mib = 1024 * 1024
const fullSpool = { open: refuse, isFull: () => true }
const seed = Number(process.env.SVC_FUZZ_SEED ?? Date.now() % 1_000_000)

test(`all readers get the whole response, whenever they start, at any speed (SVC_FUZZ_SEED=${seed})`, async () => {
  await using folder = await temporaryFolder()
  const random = createRandom(seed)
  for (let round = 0; round < 10; round++) {
    const pipe = createPipe(folder.path, { isRepeated: true })
    using _held = pipe.hold()
    const response = randomBytes(random.below(8 * mib))
    const readings = [readAll(pipe.read())]
    for (let at = 0; at < response.length; ) {
      const length = 1 + random.below(random.pick([10, 1000, 300_000]) * 10)
      const isWritable = pipe.output.write(response.subarray(at, at + length))
      if (!isWritable) await new Promise((resolve) => pipe.output.once('drain', resolve))
      if (readings.length < 20 && random.chance(0.3)) readings.push(readAll(pipe.read(), random))
      at += length
    }
    await finished(pipe.output.end())
    pipe.end({ exitCode: 0, errorOutput: '', isExplained: false })
    readings.push(readAll(pipe.read()))
    for (const read of await Promise.all(readings))
      assert.ok(read.equals(response), `round ${round}`)
  }
})

test('a response that is not to be stored waits for its only reader, and no other can join', async () => {
  await using folder = await temporaryFolder()
  const pipe = createPipe(folder.path, {})
  const reading = pipe.read()
  const response = randomBytes(16 * mib)
  let given = 0
  const writing = (async () => {
    for (; given < response.length; given += 65_536) {
      if (pipe.output.write(response.subarray(given, given + 65_536))) continue
      await new Promise((resolve) => pipe.output.once('drain', resolve))
    }
  })()
  await until('it is too long for memory', () => !pipe.isComplete())
  assert.ok(given < 4 * mib, `${given} bytes were accepted before any was read`)
  assert.equal(pipe.hasFile(), false)
  const read = readAll(reading)
  await writing
  await finished(pipe.output.end())
  pipe.end({ exitCode: 0, errorOutput: '', isExplained: false })
  assert.ok((await read).equals(response))
})

test('when no file can be written, present readers get the whole response, and no other can join', async () => {
  for (const spool of [
    { open: refuse, isFull: () => false },
    { open: () => open('/dev/full', 'w+'), isFull: () => false },
    fullSpool,
  ]) {
    const pipe = createResponsePipe({ spool, maxBytes: mib, isRepeated: false })
    const readings = [readAll(pipe.read()), readAll(pipe.read(), createRandom(seed))]
    const response = randomBytes(6 * mib)
    for (let at = 0; at < response.length; at += 65_536) {
      if (pipe.output.write(response.subarray(at, at + 65_536))) continue
      await new Promise((resolve) => pipe.output.once('drain', resolve))
    }
    await finished(pipe.output.end())
    pipe.end({ exitCode: 0, errorOutput: '', isExplained: false })
    for (const read of await Promise.all(readings)) assert.ok(read.equals(response))
    assert.equal(pipe.isComplete(), false)
  }
})

test('a reader that disconnects does not block the others', async () => {
  const pipe = createResponsePipe({ spool: fullSpool, maxBytes: mib, isRepeated: false })
  const [slow, quick] = [pipe.read(), pipe.read()]
  const response = randomBytes(8 * mib)
  const read = readAll(quick)
  pipe.output.write(response)
  await until('it waits for the slow one', () => !pipe.isComplete())
  slow[Symbol.dispose]()
  await finished(pipe.output.end())
  pipe.end({ exitCode: 0, errorOutput: '', isExplained: false })
  assert.ok((await read).equals(response))
  assert.equal(pipe.unread.aborted, false)
})

test('a response whose last reader disconnects is aborted', async () => {
  const pipe = createResponsePipe({ spool: fullSpool, maxBytes: mib, isRepeated: false })
  const readers = [pipe.read(), pipe.read()]
  assert.deepEqual(
    readers.map((reader) => {
      reader[Symbol.dispose]()
      return pipe.unread.aborted
    }),
    [false, true],
  )
})

test('a response that fails does so for all readers', async () => {
  await using folder = await temporaryFolder()
  const pipe = createPipe(folder.path, {})
  const readings = [readAll(pipe.read()), readAll(pipe.read())]
  pipe.output.write('some')
  pipe.fail(new Error('no git'))
  await Promise.all(readings.map((reading) => assert.rejects(reading, /no git/)))
  assert.equal(pipe.isComplete(), false)
})

function createPipe(folder: string, options: Partial<Parameters<typeof createResponsePipe>[0]>) {
  let files = 0
  return createResponsePipe({
    spool: {
      open: () => open(join(folder, `file-${Date.now()}-${files++}`), 'wx+'),
      isFull: () => false,
    },
    maxBytes: 100 * mib,
    isRepeated: false,
    ...options,
  })
}

async function readAll(reading: ResponseReader, random?: ReturnType<typeof createRandom>) {
  using reader = reading
  const sink = createBufferSink(random)
  await reader.copyTo(sink)
  return await sink.bytes()
}

function refuse(): Promise<never> {
  return Promise.reject(new Error('There is no space.'))
}
