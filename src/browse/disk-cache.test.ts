import assert from 'node:assert/strict'
import { readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { newId } from '#base/ids.ts'
import { temporaryFolder } from '../../test/support/git.ts'
import { createDiskCache } from './disk-cache.ts'

const limits = { isInPlace: async () => true, fileMaxBytes: 1000, maxFilesPerRepository: 4 }
const id = newId()

test('what was saved is loaded by its key alone', async () => {
  await using folder = await temporaryFolder()
  const files = createDiskCache({ root: folder.path, ...limits })
  const content = Buffer.from('é\0\n\n')
  assert.equal(await files.load(id, 'a'), undefined)
  await files.save(id, 'a', content)
  assert.deepEqual(await files.load(id, 'a'), content)
  assert.equal(await files.load(id, 'b'), undefined)
  assert.equal(await files.load(newId(), 'a'), undefined)
  await files.save(id, 'a', Buffer.from('other'))
  assert.equal((await files.load(id, 'a'))?.toString(), 'other')
  await files.save(id, 'empty', Buffer.alloc(0))
  assert.equal((await files.load(id, 'empty'))?.length, 0)
  const [name = ''] = await readdir(join(folder.path, id))
  assert.equal((await stat(join(folder.path, id, name))).mode & 0o777, 0o600)
})

test('a file that was damaged, cut or put in the place of another is ignored', async () => {
  await using folder = await temporaryFolder()
  const files = createDiskCache({ root: folder.path, ...limits })
  const pathOf = async () => {
    const [name = ''] = await readdir(join(folder.path, id))
    return join(folder.path, id, name)
  }
  await files.save(id, 'a', Buffer.from('content'))
  const path = await pathOf()
  const whole = await readFile(path)
  for (let length = 0; length < whole.length; length++) {
    await writeFile(path, whole.subarray(0, length))
    assert.equal(await files.load(id, 'a'), undefined, `cut to ${length} bytes`)
  }
  for (let at = 0; at < whole.length; at++) {
    const damaged = Buffer.from(whole)
    damaged[at] = (damaged[at] ?? 0) ^ 1
    await writeFile(path, damaged)
    assert.equal(await files.load(id, 'a'), undefined, `byte ${at}`)
  }
  await using other = await temporaryFolder()
  const others = createDiskCache({ root: other.path, ...limits })
  await others.save(id, 'b', Buffer.from('content'))
  const [name = ''] = await readdir(join(other.path, id))
  await writeFile(path, await readFile(join(other.path, id, name)))
  assert.equal(await files.load(id, 'a'), undefined)
})

test('the files of a repository that is gone, and those beyond the limits, are removed', async () => {
  await using folder = await temporaryFolder()
  const [kept, gone] = [newId(), newId()]
  const files = createDiskCache({
    root: folder.path,
    ...limits,
    isInPlace: async (repositoryId) => repositoryId === kept,
    maxBytes: 2000,
  })
  for (const repositoryId of [kept, gone])
    for (const key of ['a', 'b', 'c', 'd', 'e', 'f'])
      await files.save(repositoryId, key, Buffer.alloc(900))
  assert.equal((await readdir(join(folder.path, kept))).length, 4)
  assert.equal((await files.load(gone, 'f'))?.length, 900)
  await files.prune()
  assert.deepEqual(await readdir(folder.path), [kept])
  assert.equal((await readdir(join(folder.path, kept))).length, 2)
  await files.save(kept, 'large', Buffer.alloc(1001))
  assert.equal(await files.load(kept, 'large'), undefined)
})

test('of the files of a repository, those that were used last are kept', async () => {
  await using folder = await temporaryFolder()
  const files = createDiskCache({ root: folder.path, ...limits })
  for (const key of ['a', 'b', 'c', 'd']) await files.save(id, key, Buffer.from(key))
  for (const name of await readdir(join(folder.path, id)))
    await utimes(join(folder.path, id, name), 1, 1)
  assert.ok(await files.load(id, 'b'))
  for (const key of ['e', 'f', 'g']) await files.save(id, key, Buffer.from(key))
  assert.ok(await files.load(id, 'b'))
  for (const key of ['a', 'c', 'd']) assert.equal(await files.load(id, key), undefined, key)
})

test('no id of a repository leads out of the folder', async () => {
  await using folder = await temporaryFolder()
  const files = createDiskCache({ root: folder.path, ...limits })
  await assert.rejects(files.save('../x', 'a', Buffer.from('x')), /is not the id/)
})
