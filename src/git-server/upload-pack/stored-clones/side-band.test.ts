import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { open, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough, Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { test } from 'node:test'
import { until } from '../../../../test/support/condition.ts'
import { parseAnswer } from '../../../../test/support/fetch-site.ts'
import { temporaryFolder } from '../../../../test/support/git.ts'
import { createRandom } from '../../../../test/support/random.ts'
import { checksumOf, type Part, readParts, sizeOf } from './pack-stream.ts'
import { sendPack } from './side-band.ts'

const bodyMaxBytes = 65_515
const random = createRandom(1)

function bytesOf(length: number): Buffer {
  return Buffer.from(Array.from({ length }, () => random.below(256)))
}

test('parts in memory and in files are one stream, wherever it is read and however it is divided', async () => {
  await using folder = await temporaryFolder()
  const content = bytesOf(1000)
  await writeFile(join(folder.path, 'file'), content)
  await using file = await open(join(folder.path, 'file'))
  for (let round = 0; round < 200; round++) {
    const pieces = Array.from({ length: random.below(5) }, () => {
      const start = random.below(900)
      const length = random.below(100)
      const expected = content.subarray(start, start + length)
      return { expected, part: random.below(2) === 0 ? expected : { file, start, length } }
    })
    const parts: Part[] = pieces.map(({ part }) => part)
    const whole = Buffer.concat(pieces.map(({ expected }) => expected))
    assert.equal(sizeOf(parts), whole.length)
    const from = random.below(whole.length + 1)
    const buffers: Buffer[] = []
    for (
      let left = random.below(whole.length - from + 1);
      left > 0;
      left -= buffers.at(-1)?.length ?? 0
    )
      buffers.push(Buffer.alloc(1 + random.below(left)))
    await readParts(parts, from, buffers)
    const read = Buffer.concat(buffers)
    assert.deepEqual(read, whole.subarray(from, from + read.length))
    assert.deepEqual(await checksumOf(parts, 'sha1'), createHash('sha1').update(whole).digest())
  }
})

for (const length of [1, bodyMaxBytes - 1, bodyMaxBytes, bodyMaxBytes + 1, 8 * bodyMaxBytes, 2e6]) {
  test(`a pack of ${length} bytes arrives, and has the announced size`, async () => {
    const pack = bytesOf(length)
    const received: Buffer[] = []
    // As a socket does: the bytes are taken when their write is done.
    const output = new Writable({
      write(chunk, _encoding, done) {
        received.push(Buffer.from(chunk))
        setImmediate(done)
      },
    })
    let announced: number | undefined
    const onBegin = (size?: number) => {
      announced = size
    }
    const sink = { output, signal: new AbortController().signal, onBegin, onProgress() {} }
    await sendPack([pack], checksumMade(Buffer.alloc(20, 1)), sink)
    await finished(output.end())
    const response = Buffer.concat(received)
    assert.equal(response.length, announced)
    const answer = parseAnswer(response)
    assert.deepEqual(answer.lines, ['packfile\n', 'flush'])
    assert.deepEqual(answer.pack, Buffer.concat([pack, Buffer.alloc(20, 1)]))
  })
}

function checksumMade(checksum: Buffer) {
  return { bytes: checksum.length, made: Promise.resolve(checksum) }
}

test('a file that ends early ends the response', async () => {
  await using folder = await temporaryFolder()
  await writeFile(join(folder.path, 'file'), 'short')
  await using file = await open(join(folder.path, 'file'))
  const sink = {
    output: new PassThrough().resume(),
    signal: new AbortController().signal,
    onBegin() {},
    onProgress() {},
  }
  const parts = [{ file, start: 0, length: 10 }]
  await assert.rejects(sendPack(parts, checksumMade(Buffer.alloc(20)), sink), /truncated/)
})

test('many clients that do not read cost little memory each', async () => {
  await using folder = await temporaryFolder()
  const content = bytesOf(2e6)
  await writeFile(join(folder.path, 'file'), content)
  await using file = await open(join(folder.path, 'file'))
  const parts = [{ file, start: 0, length: content.length }]
  const clients = 200
  const stop = new AbortController()
  const before = process.memoryUsage().arrayBuffers
  const outputs = Array.from({ length: clients }, () => new PassThrough())
  const sent = outputs.map((output) => {
    const sink = { output, signal: stop.signal, onBegin() {}, onProgress() {} }
    return sendPack(parts, checksumMade(Buffer.alloc(20)), sink)
  })
  await until('all wait', () => outputs.every((output) => output.writableNeedDrain))
  const used = process.memoryUsage().arrayBuffers - before
  assert.ok(used / clients < 400_000, `${used / clients} bytes for each`)
  stop.abort()
  const results = await Promise.allSettled(sent)
  assert.ok(results.every(({ status }) => status === 'rejected'))
})
