import assert from 'node:assert/strict'
import {
  mkdir,
  mkdtemp,
  readdir,
  readlink,
  rename,
  rm,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { temporaryFolder } from '../../../test/support/git.ts'
import { zeroId } from './ref-name.ts'
import {
  defaultBranchAfter,
  hasRefs,
  type RefUpdate,
  readAllRefs,
  readRawRefsNamed,
  readRefs,
} from './refs.ts'

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

// Longer than a fingerprint needs to settle: see base/file-fingerprint.ts.
const settledMs = 600
const idOf = (digit: string) => digit.repeat(40)
const header = '# pack-refs with: peeled fully-peeled sorted \n'

const name = 'refs/heads/main'

let folder: string
let path: string

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-test-'))
  path = join(folder, name)
  await mkdir(dirname(path), { recursive: true })
})

after(() => rm(folder, { recursive: true, force: true }))

/** Changes a file as git does. */
async function replace(file: string, content: string): Promise<void> {
  await writeFile(`${file}.lock`, content)
  await rename(`${file}.lock`, file)
}

async function read(ref = name): Promise<string | undefined> {
  return (await readRefs(folder, [ref])).get(ref)
}

test('a loose ref is read anew after every change, however quickly they follow', async () => {
  for (let round = 0; round < 200; round++) {
    const id = idOf((round % 10).toString())
    await (round % 2 === 0 ? replace(path, `${id}\n`) : writeFile(path, `${id}\n`))
    assert.equal(await read(), id)
  }
})

test('a loose ref that has been known for long is read anew after a change', async () => {
  await replace(path, idOf('1'))
  await sleep(settledMs)
  assert.equal(await read(), idOf('1'))
  assert.equal(await read(), idOf('1'))
  await writeFile(path, idOf('2'))
  // As a restored backup or a clock that was set back may leave it: the same size and modification time.
  await utimes(path, 1, 1)
  assert.equal(await read(), idOf('2'))
  await rm(path)
  assert.equal(await read(), zeroId)
  await mkdir(path)
  assert.equal(await read(), zeroId)
  assert.equal(await read(`${name}/below`), zeroId)
  await writeFile(join(path, 'below'), idOf('3'))
  assert.equal(await read(`${name}/below`), idOf('3'))
  assert.equal(await read(`${name}/below/a-file`), zeroId)
  await rm(path, { recursive: true })
})

test('a symbolic link is followed each time', async () => {
  const target = join(folder, 'target')
  await symlink('../../target', path)
  assert.equal(await read(), zeroId)
  await writeFile(target, idOf('1'))
  assert.equal(await read(), idOf('1'))
  await sleep(settledMs)
  assert.equal(await read(), idOf('1'))
  await writeFile(target, idOf('2'))
  assert.equal(await read(), idOf('2'))
  await rm(path)
})

test('the file of a ref is read as git reads it', async () => {
  const id = idOf('1')
  await writeFile(join(folder, 'outside'), `${idOf('2')}\n`)
  await writeFile(join(folder, 'refs/heads/é'), `${idOf('3')}\n`)
  const values: [string, string][] = [
    [`${id}\n`, id],
    [`${id} and more\n`, id],
    [`${id}0\n`, zeroId],
    ['', zeroId],
    ['ref: refs/heads/é\n', idOf('3')],
    ['ref:\trefs/heads/é \r\n\n', idOf('3')],
    ['ref: refs/heads/main\n', zeroId],
    ['ref: ../outside\n', zeroId],
    ['ref: outside\n', zeroId],
    ['ref: refs/heads/../../outside\n', zeroId],
    ['ref: \n', zeroId],
  ]
  for (const [content, value] of values) {
    await replace(path, content)
    assert.equal(await read(), value, content)
    assert.equal((await readAllRefs(folder)).get(name) ?? zeroId, value, content)
    const named = await readRawRefsNamed(folder, [name])
    assert.ok(![...named.keys()].some((other) => other.includes('outside')), content)
  }
  await rm(path)
})

test('packed refs are looked up anew after a change, and missing ones are remembered as missing', async () => {
  const packed = join(folder, 'packed-refs')
  const wanted = ['refs/heads/a', 'refs/heads/b']
  const values = async () => [...(await readRefs(folder, wanted)).values()]
  assert.deepEqual(await values(), [zeroId, zeroId])
  await replace(packed, `${header}${idOf('1')} refs/heads/a\n`)
  await sleep(settledMs)
  for (let round = 0; round < 2; round++) assert.deepEqual(await values(), [idOf('1'), zeroId])
  await replace(packed, `${header}${idOf('2')} refs/heads/a\n${idOf('3')} refs/heads/b\n`)
  for (let round = 0; round < 2; round++) assert.deepEqual(await values(), [idOf('2'), idOf('3')])
  await replace(packed, `${idOf('2')} refs/heads/b\n${idOf('3')} refs/heads/a\n`)
  assert.deepEqual(await values(), [idOf('3'), idOf('2')])
})

test('more names than are remembered of a file are all found', async () => {
  const names = Array.from({ length: 300 }, (_, index) => `refs/heads/b${1000 + index}`)
  const lines = names.map((one) => `${idOf('4')} ${one}\n`)
  await replace(join(folder, 'packed-refs'), header + lines.join(''))
  await sleep(settledMs)
  for (const one of [...names, ...names]) assert.equal(await read(one), idOf('4'))
})

test('the default branch stays until a push deletes it, or brings a usual one before a user has chosen', async () => {
  const [made, id] = ['0'.repeat(40), '1'.repeat(40)]
  const created = (branch: string) => ({ ref: `refs/heads/${branch}`, before: made, after: id })
  const deleted = (branch: string) => ({ ref: `refs/heads/${branch}`, before: id, after: made })
  const tag = { ref: 'refs/tags/main', before: made, after: id }
  const after = (
    present: string,
    moved: RefUpdate[],
    { left = [], ...facts }: { left?: string[]; isChosen?: boolean; ofEmpty?: string } = {},
  ) =>
    defaultBranchAfter(present, moved, {
      isThere: async () => left.includes(present),
      isChosen: async () => facts.isChosen === true,
      listBranches: async () => left,
      ofEmpty: async () => facts.ofEmpty,
    })
  const there = { left: ['dev', 'main'] }
  for (const [result, expected] of [
    [after('main', [created('x')], there), 'main'],
    [after('dev', [created('main')], there), 'main'],
    [after('dev', [created('main')], { ...there, isChosen: true }), 'dev'],
    [after('dev', [created('x')], there), 'dev'],
    [after('dev', [tag], there), 'dev'],
    [after('gone', [tag], there), 'gone'],
    [after('main', [deleted('main'), created('x')], { left: ['a', 'x'] }), 'x'],
    [after('main', [deleted('main'), created('x'), created('y')], { left: ['b', 'a'] }), 'a'],
    [after('main', [deleted('main'), created('x'), created('trunk')]), 'trunk'],
    [after('main', [deleted('main')], { left: ['x', 'master'] }), 'master'],
    [after('main', [deleted('main')]), 'main'],
    [after('main', [deleted('main')], { ofEmpty: 'trunk' }), 'trunk'],
  ] as const)
    assert.equal(await result, expected)
})
