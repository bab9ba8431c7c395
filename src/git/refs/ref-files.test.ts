import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { lookUpKnownPacked, readRefFile } from './ref-files.ts'

// Longer than a fingerprint needs to settle: see base/file-fingerprint.ts.
const settledMs = 600
const idOf = (digit: string) => digit.repeat(40)
const header = '# pack-refs with: peeled fully-peeled sorted \n'

let folder: string

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-test-'))
})

after(() => rm(folder, { recursive: true, force: true }))

/** Changes a file as git does. */
async function replace(path: string, content: string): Promise<void> {
  await writeFile(`${path}.lock`, content)
  await rename(`${path}.lock`, path)
}

test('a ref file is read anew after every change, however quickly they follow', async () => {
  const path = join(folder, 'quick')
  for (let round = 0; round < 200; round++) {
    const content = `${idOf((round % 10).toString())}\n`
    await (round % 2 === 0 ? replace(path, content) : writeFile(path, content))
    assert.equal(await readRefFile(path), content)
  }
})

test('a ref file that has been known for long is read anew after a change', async () => {
  const path = join(folder, 'settled')
  await replace(path, idOf('1'))
  await sleep(settledMs)
  assert.equal(await readRefFile(path), idOf('1'))
  assert.equal(await readRefFile(path), idOf('1'))
  await writeFile(path, idOf('2'))
  // As a restored backup or a clock that was set back may leave it: the same size and modification time.
  await utimes(path, 1, 1)
  assert.equal(await readRefFile(path), idOf('2'))
  await rm(path)
  assert.equal(await readRefFile(path), '')
  await mkdir(path)
  assert.equal(await readRefFile(path), '')
  assert.equal(await readRefFile(join(path, 'below')), '')
  await writeFile(join(path, 'below'), idOf('3'))
  assert.equal(await readRefFile(join(path, 'below')), idOf('3'))
  assert.equal(await readRefFile(join(path, 'below', 'a file')), '')
})

test('a symbolic link is followed each time', async () => {
  const [path, target] = [join(folder, 'link'), join(folder, 'target')]
  await symlink('target', path)
  assert.equal(await readRefFile(path), '')
  await writeFile(target, idOf('1'))
  assert.equal(await readRefFile(path), idOf('1'))
  await sleep(settledMs)
  assert.equal(await readRefFile(path), idOf('1'))
  await writeFile(target, idOf('2'))
  assert.equal(await readRefFile(path), idOf('2'))
})

test('packed refs are looked up anew after a change, and missing ones are remembered as missing', async () => {
  const path = join(folder, 'packed-refs')
  const wanted = ['refs/heads/a', 'refs/heads/b']
  assert.equal((await lookUpKnownPacked(path, wanted))?.size, 0)
  await replace(path, `${header}${idOf('1')} refs/heads/a\n`)
  await sleep(settledMs)
  for (let round = 0; round < 2; round++) {
    const found = await lookUpKnownPacked(path, wanted)
    assert.deepEqual([...(found ?? [])], [['refs/heads/a', idOf('1')]])
  }
  await replace(path, `${header}${idOf('2')} refs/heads/a\n${idOf('3')} refs/heads/b\n`)
  for (let round = 0; round < 2; round++) {
    const found = await lookUpKnownPacked(path, wanted)
    assert.deepEqual(found && Object.fromEntries(found), {
      'refs/heads/a': idOf('2'),
      'refs/heads/b': idOf('3'),
    })
  }
  await replace(path, `${idOf('2')} refs/heads/b\n${idOf('3')} refs/heads/a\n`)
  assert.equal(await lookUpKnownPacked(path, wanted), undefined)
})

test('more names than are remembered of a file are all found', async () => {
  const path = join(folder, 'many')
  const names = Array.from({ length: 300 }, (_, index) => `refs/heads/b${1000 + index}`)
  await replace(path, header + names.map((name) => `${idOf('4')} ${name}\n`).join(''))
  await sleep(settledMs)
  for (const name of [...names, ...names])
    assert.equal((await lookUpKnownPacked(path, [name]))?.get(name), idOf('4'))
})
