import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../test/support/git.ts'
import { createSharedFile } from './shared-file.ts'

const mib = 1024 * 1024

test('who reads what another has just read gets the same bytes, and the file is read once', async () => {
  await using site = await createSite(mib)
  const { shared, bytes } = site
  const all = await Promise.all(Array.from({ length: 32 }, () => shared.read(0, mib)))
  const later = await shared.read(1000, mib)
  assert.equal(site.reads(), 1)
  for (const one of all) assert.equal(one.buffer, later.buffer)
  assert.ok(later.equals(bytes.subarray(1000, 1000 + later.length)))
})

test('a file that grows is read again where it has grown', async () => {
  await using site = await createSite(1000)
  assert.equal((await site.shared.read(0, 1000)).length, 1000)
  const more = randomBytes(500)
  await site.shared.write(more, 1000)
  assert.ok((await site.shared.read(1000, 1500)).equals(more))
  assert.ok((await site.shared.read(0, 1500)).equals(Buffer.concat([site.bytes, more])))
})

test('what was read longest ago is forgotten: it is read again, and others are not', async () => {
  await using site = await createSite(16 * mib)
  const { shared, bytes } = site
  for (let at = 0; at < bytes.length; ) at += (await shared.read(at, bytes.length)).length
  const before = site.reads()
  await shared.read(bytes.length - 1, bytes.length)
  assert.equal(site.reads(), before)
  const first = await shared.read(0, bytes.length)
  assert.equal(site.reads(), before + 1)
  assert.ok(first.equals(bytes.subarray(0, first.length)))
})

test('a fault is told to those who wait, and not kept for those who come later', async () => {
  await using site = await createSite(mib)
  site.fail(new Error('The disk has a fault.'))
  for (const reading of [site.shared.read(0, mib), site.shared.read(5, mib)]) {
    await assert.rejects(reading, /The disk has a fault/)
  }
  site.fail(undefined)
  assert.ok((await site.shared.read(0, mib)).length > 0)
})

test('a file that is shorter than it was is told of', async () => {
  await using site = await createSite(mib)
  await site.file.truncate(10)
  await assert.rejects(site.shared.read(10, mib), /shorter than it was/)
})

async function createSite(length: number) {
  const folder = await temporaryFolder()
  const bytes = randomBytes(length)
  const file = await open(join(folder.path, 'file'), 'wx+')
  await file.write(bytes)
  let reads = 0
  let fault: Error | undefined
  const watched = {
    async read(...args: [Buffer, number, number, number]) {
      reads += 1
      if (fault) throw fault
      return await file.read(...args)
    },
    write: file.write.bind(file),
    close: file.close.bind(file),
  }
  const shared = createSharedFile(watched)
  return {
    bytes,
    file,
    shared,
    reads: () => reads,
    fail(error: Error | undefined) {
      fault = error
    },
    async [Symbol.asyncDispose]() {
      await shared.close()
      await folder[Symbol.asyncDispose]()
    },
  }
}
