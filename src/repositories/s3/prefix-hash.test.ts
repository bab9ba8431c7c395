import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../../test/support/git.ts'
import { createPrefixHash } from './prefix-hash.ts'

const kib = 1024

async function openFile() {
  const folder = await temporaryFolder()
  const file = await open(join(folder.path, 'file'), 'wx+')
  return {
    file,
    async [Symbol.asyncDispose]() {
      await file.close()
      await folder[Symbol.asyncDispose]()
    },
  }
}

test('ranges that are complete in any order give the hash of the file', async () => {
  await using opened = await openFile()
  const { file } = opened
  const content = randomBytes(3000 * kib)
  for (const starts of [
    [0, 1000, 2000],
    [2000, 1000, 0],
    [1000, 0, 2000],
  ]) {
    await using hash = createPrefixHash(file)
    for (const start of starts.map((kibs) => kibs * kib)) {
      await file.write(content, start, 1000 * kib, start)
      hash.add({ start, bytes: 1000 * kib })
    }
    assert.equal(await hash.digest(), createHash('sha256').update(content).digest('hex'))
  }
})

test('an empty file has the hash of nothing', async () => {
  await using opened = await openFile()
  await using hash = createPrefixHash(opened.file)
  hash.add({ start: 0, bytes: 0 })
  assert.equal(await hash.digest(), createHash('sha256').digest('hex'))
})

test('a file that is too short, or cannot be read, is an error of the digest', async () => {
  await using opened = await openFile()
  await using short = createPrefixHash(opened.file)
  short.add({ start: 0, bytes: 10 })
  await assert.rejects(short.digest(), /ends at 0, not at 10/)
  await using broken = createPrefixHash({ read: () => Promise.reject(new Error('EIO')) })
  broken.add({ start: 0, bytes: 10 })
  await assert.rejects(broken.digest(), /EIO/)
})

test('disposal ends the reading', async () => {
  await using opened = await openFile()
  const { file } = opened
  await file.truncate(8000 * kib)
  let reads = 0
  const counted = {
    read: (...args: Parameters<typeof file.read>) => {
      reads++
      return file.read(...args)
    },
  }
  const hash = createPrefixHash(counted as Pick<typeof file, 'read'>)
  hash.add({ start: 0, bytes: 8000 * kib })
  await hash[Symbol.asyncDispose]()
  const after = reads
  await new Promise((resolve) => setImmediate(resolve))
  assert.ok(reads < 8)
  assert.equal(reads, after)
})
