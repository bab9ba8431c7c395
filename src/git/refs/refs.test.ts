import assert from 'node:assert/strict'
import { mkdir, readdir, readlink, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../../test/support/git.ts'
import { hasRefs, readRefs } from './refs.ts'

test('reading the first of many packed refs leaves no file open', async () => {
  await using folder = await temporaryFolder()
  const lines = Array.from(
    { length: 5000 },
    (_, number) => `${'a'.repeat(40)} refs/tags/v${number}\n`,
  )
  await writeFile(
    join(folder.path, 'packed-refs'),
    `# pack-refs with: peeled sorted\n${lines.join('')}`,
  )
  for (let times = 0; times < 20; times++) {
    assert.equal(await hasRefs(folder.path, 'any'), true)
    const read = await readRefs(folder.path, ['refs/tags/v1'])
    assert.equal(read.get('refs/tags/v1'), 'a'.repeat(40))
  }
  const targets = await Promise.all(
    (await readdir('/proc/self/fd')).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')),
  )
  assert.deepEqual(
    targets.filter((target) => target.startsWith(folder.path)),
    [],
  )
})

test('a repository with only hidden refs appears empty, but is not', async () => {
  await using folder = await temporaryFolder()
  const hidden = 'refs/svc/kept/x/y'
  const looks = async () => [
    await hasRefs(folder.path, 'any'),
    await hasRefs(folder.path, 'visible'),
  ]
  assert.deepEqual(await looks(), [false, false])
  await mkdir(join(folder.path, 'refs/svc/kept/x'), { recursive: true })
  await writeFile(join(folder.path, hidden), `${'a'.repeat(40)}\n`)
  assert.deepEqual(await looks(), [true, false])
  await rm(join(folder.path, hidden))
  await writeFile(join(folder.path, 'packed-refs'), `${'a'.repeat(40)} ${hidden}\n`)
  assert.deepEqual(await looks(), [true, false])
  // Its name only begins alike.
  await mkdir(join(folder.path, 'refs/svcs'))
  await writeFile(join(folder.path, 'refs/svcs/x'), `${'a'.repeat(40)}\n`)
  assert.deepEqual(await looks(), [true, true])
})

test('a symbolic ref to a packed ref has its value', async () => {
  await using folder = await temporaryFolder()
  await mkdir(join(folder.path, 'refs/heads'), { recursive: true })
  await writeFile(join(folder.path, 'refs/heads/alias'), 'ref: refs/heads/main\n')
  await writeFile(join(folder.path, 'packed-refs'), `${'a'.repeat(40)} refs/heads/main\n`)
  const names = ['refs/heads/alias', 'refs/heads/main']
  const read = await readRefs(folder.path, names)
  assert.deepEqual(new Map([...read].sort()), new Map(names.map((name) => [name, 'a'.repeat(40)])))
})

test('a few of many packed refs are found, and missing ones are not', async () => {
  await using folder = await temporaryFolder()
  const idOf = (number: number) => number.toString(16).padStart(40, '0')
  const names = Array.from(
    { length: 3000 },
    (_, number) => `refs/tags/é${'x'.repeat(number % 90)}/${number}`,
  )
  const sorted = names.sort((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other)))
  const lines = sorted.map(
    (name, at) => `${idOf(at + 1)} ${name}\n${at % 3 ? '' : `^${idOf(at)}\n`}`,
  )
  const path = join(folder.path, 'packed-refs')
  for (const header of ['# pack-refs with: peeled fully-peeled sorted \n', '']) {
    await writeFile(path, `${header}${lines.join('')}`)
    for (const [at, name] of sorted.entries()) {
      if (at > 3 && at < sorted.length - 3 && at % 250 !== 0) continue
      const asked = [name, `${name}0`, name.slice(0, -1), `${name}/a`]
      const expected = asked.map((one) => [one, idOf(sorted.indexOf(one) + 1)])
      assert.deepEqual([...(await readRefs(folder.path, asked))].sort(), expected.sort())
    }
    const all = await readRefs(folder.path, sorted)
    assert.equal(all.get(sorted[1234] ?? ''), idOf(1235))
  }
  await writeFile(path, '')
  assert.equal((await readRefs(folder.path, ['refs/tags/a'])).get('refs/tags/a'), idOf(0))
})
