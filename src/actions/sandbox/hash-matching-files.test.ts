import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../../test/support/git.ts'
import { type HashAllowance, hashMatching, listRegularFiles } from './hash-matching-files.ts'

const allowance = () => ({ entries: 100, bytes: 1000 })
const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest()

test('the hash is that of the hashes of the matching files, in order', async () => {
  await using folder = await tree()
  const expected = sha256(Buffer.concat([sha256('one'), sha256('two')])).toString('hex')
  assert.equal(
    hashMatching(folder.path, (path) => path.endsWith('.lock'), allowance()),
    expected,
  )
  assert.equal(
    hashMatching(folder.path, () => false, allowance()),
    '',
  )
})

test('links are neither followed nor listed', async () => {
  await using folder = await tree()
  await symlink('/', join(folder.path, 'root'))
  await symlink('a/x.lock', join(folder.path, 'y.lock'))
  assert.deepEqual(listRegularFiles(folder.path, allowance()), ['a/x.lock', 'b.lock', 'c'])
})

test('too many or too large files are an error', async () => {
  await using folder = await tree()
  const all = () => true
  const hash = (left: HashAllowance) => hashMatching(folder.path, all, left)
  assert.throws(() => hash({ ...allowance(), entries: 3 }), /too many files/)
  assert.throws(() => hash({ ...allowance(), bytes: 8 }), /too much to read/)
})

test('all calls share one budget', async () => {
  await using folder = await tree()
  const left = { entries: 100, bytes: 20 }
  const hash = () => hashMatching(folder.path, () => true, left)
  hash()
  assert.deepEqual(left, { entries: 96, bytes: 9 })
  assert.throws(hash, /too much to read/)
})

async function tree() {
  const folder = await temporaryFolder()
  await mkdir(join(folder.path, 'a'))
  await writeFile(join(folder.path, 'a', 'x.lock'), 'one')
  await writeFile(join(folder.path, 'b.lock'), 'two')
  await writeFile(join(folder.path, 'c'), 'three')
  return folder
}
