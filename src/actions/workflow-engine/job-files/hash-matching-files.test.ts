import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../../../test/support/git.ts'
import { type HashAllowance, hashMatching } from './hash-matching-files.ts'

const allowance = () => ({ entries: 100, bytes: 1000 })
const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest()

test('the hash is that of the hashes of the matching files, in order', async () => {
  await using folder = await tree()
  const expected = sha256(Buffer.concat([sha256('one'), sha256('two')])).toString('hex')
  assert.equal(
    hashMatching(rootOf(folder), (path) => path.endsWith('.lock'), allowance()),
    expected,
  )
  assert.equal(
    hashMatching(rootOf(folder), () => false, allowance()),
    '',
  )
})

test('a link counts as the file within the folder that it leads to', async () => {
  await using folder = await tree()
  const at = (name: string) => join(folder.path, name)
  const hash = (...names: string[]) =>
    hashMatching(rootOf(folder), (path) => names.includes(path), allowance())
  const own = hash('a/x.lock')
  await symlink('a/x.lock', at('relative'))
  await symlink('/workspace/relative', at('absolute'))
  await symlink('a', at('folder'))
  await symlink('folder/x.lock', at('deep'))
  for (const link of ['relative', 'absolute', 'deep']) assert.equal(hash(link), own, link)

  await writeFile(`${folder.path}-outside`, 'secret')
  await symlink('/', at('machine'))
  await symlink(`../${basename(folder.path)}-outside`, at('outside'))
  await symlink('machine/etc/passwd', at('through'))
  await symlink('/workspace/machine/etc/passwd', at('absolute-through'))
  await symlink('none', at('broken'))
  await symlink('self', at('self'))
  const leftOut = ['machine', 'outside', 'through', 'absolute-through', 'broken', 'self', 'folder']
  for (const link of leftOut)
    assert.equal(hash(link, `${link}/x.lock`, `${link}/etc/passwd`), '', link)
  await rm(`${folder.path}-outside`)
})

test('too many or too large files are an error', async () => {
  await using folder = await tree()
  const all = () => true
  const hash = (left: HashAllowance) => hashMatching(rootOf(folder), all, left)
  assert.throws(() => hash({ ...allowance(), entries: 3 }), /too many files/)
  assert.throws(() => hash({ ...allowance(), bytes: 8 }), /too much to read/)
})

test('all calls share one budget', async () => {
  await using folder = await tree()
  const left = { entries: 100, bytes: 20 }
  const hash = () => hashMatching(rootOf(folder), () => true, left)
  hash()
  assert.deepEqual(left, { entries: 96, bytes: 9 })
  assert.throws(hash, /too much to read/)
})

const rootOf = ({ path }: { path: string }) => ({ folder: path, workspace: '/workspace' })

async function tree() {
  const folder = await temporaryFolder()
  await mkdir(join(folder.path, 'a'))
  await writeFile(join(folder.path, 'a', 'x.lock'), 'one')
  await writeFile(join(folder.path, 'b.lock'), 'two')
  await writeFile(join(folder.path, 'c'), 'three')
  return folder
}
