import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { finished } from 'node:stream/promises'
import { test } from 'node:test'
import { until } from '../../../test/support/condition.ts'
import { temporaryFolder } from '../../../test/support/git.ts'
import { createRandom } from '../../../test/support/random.ts'
import { createResponsePipe, type ResponseReader } from './response-pipe.ts'

const mib = 1024 * 1024
const { signal } = new AbortController()
const seed = Number(process.env.SVC_FUZZ_SEED ?? Date.now() % 1_000_000)

test(`all readers get all of it, whenever they begin, at any speed (SVC_FUZZ_SEED=${seed})`, async () => {
  await using folder = await temporaryFolder()
  const random = createRandom(seed)
  for (let round = 0; round < 10; round++) {
    const pipe = createSpool(folder.path, { isWanted: () => true })
    using _held = pipe.hold()
    const answer = randomBytes(random.below(8 * mib))
    const readings = [readAll(pipe.read())]
    for (let at = 0; at < answer.length; ) {
      const length = 1 + random.below(random.pick([10, 1000, 300_000]) * 10)
      const goesOn = pipe.output.write(answer.subarray(at, at + length))
      if (!goesOn) await new Promise((resolve) => pipe.output.once('drain', resolve))
      if (readings.length < 20 && random.chance(0.3)) readings.push(readAll(pipe.read(), random))
      at += length
    }
    await finished(pipe.output.end())
    pipe.end({ exitCode: 0, complaint: '', isExplained: false })
    readings.push(readAll(pipe.read()))
    for (const read of await Promise.all(readings)) assert.ok(read.equals(answer), `round ${round}`)
  }
})

test('an answer that is wanted by its one reader alone waits for it, and cannot be joined', async () => {
  await using folder = await temporaryFolder()
  const pipe = createSpool(folder.path, { isWanted: () => false })
  const reading = pipe.read()
  const answer = randomBytes(16 * mib)
  let given = 0
  const writing = (async () => {
    for (; given < answer.length; given += 65_536) {
      if (pipe.output.write(answer.subarray(given, given + 65_536))) continue
      await new Promise((resolve) => pipe.output.once('drain', resolve))
    }
  })()
  await until('it is too long for memory', () => !pipe.isWhole())
  assert.ok(given < 4 * mib, `${given} bytes were taken that nobody has read`)
  assert.equal(pipe.hasFile(), false)
  const read = readAll(reading)
  await writing
  await finished(pipe.output.end())
  pipe.end({ exitCode: 0, complaint: '', isExplained: false })
  assert.ok((await read).equals(answer))
})

test('where no file can be written, those who have begun get all of it, and nobody else joins', async () => {
  for (const openFile of [refuse, () => open('/dev/full', 'w+')]) {
    const pipe = createResponsePipe({ openFile, isWanted: () => true, onUnread() {} })
    const readings = [readAll(pipe.read()), readAll(pipe.read(), createRandom(seed))]
    const answer = randomBytes(6 * mib)
    for (let at = 0; at < answer.length; at += 65_536) {
      if (pipe.output.write(answer.subarray(at, at + 65_536))) continue
      await new Promise((resolve) => pipe.output.once('drain', resolve))
    }
    await finished(pipe.output.end())
    pipe.end({ exitCode: 0, complaint: '', isExplained: false })
    for (const read of await Promise.all(readings)) assert.ok(read.equals(answer))
    assert.equal(pipe.isWhole(), false)
  }
})

test('who leaves is not waited for, and the last one to leave is told of', async () => {
  await using folder = await temporaryFolder()
  let unread = 0
  const pipe = createSpool(folder.path, { isWanted: () => false, onUnread: () => unread++ })
  const [slow, quick] = [pipe.read(), pipe.read()]
  const answer = randomBytes(8 * mib)
  const read = readAll(quick)
  pipe.output.write(answer)
  await until('it waits for the slow one', () => !pipe.isWhole())
  slow[Symbol.dispose]()
  assert.equal(unread, 0)
  await finished(pipe.output.end())
  pipe.end({ exitCode: 0, complaint: '', isExplained: false })
  assert.ok((await read).equals(answer))
  assert.equal(unread, 1)
})

test('an answer that fails fails for all who read it', async () => {
  await using folder = await temporaryFolder()
  const pipe = createSpool(folder.path, {})
  const readings = [readAll(pipe.read()), readAll(pipe.read())]
  pipe.output.write('some')
  pipe.fail(new Error('no git'))
  for (const reading of readings) await assert.rejects(reading, /no git/)
  assert.equal(pipe.isWhole(), false)
})

function createSpool(folder: string, options: Partial<Parameters<typeof createResponsePipe>[0]>) {
  let files = 0
  return createResponsePipe({
    openFile: () => open(join(folder, `file-${Date.now()}-${files++}`), 'wx+'),
    isWanted: () => true,
    onUnread() {},
    ...options,
  })
}

async function readAll(reading: ResponseReader, random?: ReturnType<typeof createRandom>) {
  using reader = reading
  const pieces: Buffer[] = []
  for (;;) {
    const piece = await reader.next(signal)
    if (!piece) return Buffer.concat(pieces)
    // Its bytes are another's once it is done with.
    pieces.push(Buffer.from(piece.bytes))
    piece.done()
    if (random?.chance(0.3)) await new Promise((resolve) => setImmediate(resolve))
  }
}

function refuse(): Promise<never> {
  return Promise.reject(new Error('There is no room.'))
}
