import assert from 'node:assert/strict'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { createProject, git, temporaryFolder } from '../../../test/support/git.ts'
import { moveRefInProcess } from './move-refs.ts'
import { zeroId } from './ref-name.ts'

const ref = 'refs/heads/main'

type Move = { ref: string; from: string; to: string }

/** A bare repository with the branch `main`, and commits for it to move to. */
async function createRepository() {
  await using starting = new AsyncDisposableStack()
  const project = starting.use(await createProject())
  const folder = starting.use(await temporaryFolder())
  const first = await project.git('rev-parse', 'HEAD')
  const second = await project.commit('second.txt')
  const third = await project.commit('third.txt')
  const path = join(folder.path, 'site.git')
  await git('/', ['clone', '--quiet', '--bare', '--template=', project.path, path])
  const run = async (...args: string[]) => (await git(path, args)).stdout
  await run('update-ref', ref, first)
  const running = starting.move()
  return {
    ...{ path, first, second, third },
    git: run,
    value: () => run('rev-parse', ref),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

/** Moves a ref by a draft of its own. */
async function move(directory: string, { ref, from, to }: Move): Promise<boolean> {
  await using folder = await temporaryFolder()
  const draft = join(folder.path, 'draft')
  await writeFile(draft, `${to}\n`)
  return await moveRefInProcess(directory, { ref, from, draft })
}

test('a loose ref moves, and a packed one, whether its folder is there or not', async () => {
  await using site = await createRepository()
  const { path, first, second, third } = site
  assert.equal(await move(path, { ref, from: first, to: second }), true)
  assert.equal(await site.value(), second)
  await site.git('pack-refs', '--all')
  assert.equal(await move(path, { ref, from: second, to: third }), true)
  assert.equal(await site.value(), third)
  await site.git('pack-refs', '--all')
  await rm(join(path, 'refs/heads'), { recursive: true })
  assert.equal(await move(path, { ref, from: third, to: first }), true)
  assert.equal(await site.value(), first)
})

test('a ref is created, with its folders, unless it is there or another one is in its way', async () => {
  await using site = await createRepository()
  const { path, first, second } = site
  const create = (name: string) =>
    move(path, { ref: `refs/heads/${name}`, from: zeroId, to: second })
  const check = async () => {
    assert.equal(await create('main'), false)
    assert.equal(await create('main/new'), false)
    assert.equal(await create('main/new/deep'), false)
    assert.equal(await create('a/b'), false)
    assert.equal(await create('a'), false)
  }
  assert.equal(await create('new'), true)
  assert.equal(await create('a/b/c'), true)
  await check()
  await site.git('pack-refs', '--all')
  await check()
  // Git leaves the folders of packed refs in place.
  for (const folder of ['main', 'a'])
    await rm(join(path, 'refs/heads', folder), { recursive: true, force: true })
  await check()
  // A name that only begins like another one is not in its way.
  for (const name of ['a-', 'a.b', 'a0', 'mai', 'main0', 'main-/x', 'a/b0', 'a/b-/c'])
    assert.equal(await create(name), true, name)
  assert.equal(
    await site.git('rev-parse', 'new', 'a/b/c', 'a/b0'),
    [second, second, second].join('\n'),
  )
  assert.equal(await site.value(), first)
  await site.git('fsck')
  await site.git('pack-refs', '--all')
  await site.git('update-ref', 'refs/heads/a/b1', first, zeroId)
})

test('among many packed refs, each one within a new ref is found', async () => {
  await using site = await createRepository()
  const { path, first } = site
  const names = Array.from({ length: 2000 }, (_, number) => `refs/heads/n${number}/x`)
  const lines = names
    .map((name) => `${first} ${name}\n`)
    .sort((one, other) => (one < other ? -1 : 1))
  const header = '# pack-refs with: peeled fully-peeled sorted \n'
  await writeFile(join(path, 'packed-refs'), header + lines.join(''))
  for (let number = 0; number < 2000; number += 97) {
    const inTheWay = `refs/heads/n${number}`
    assert.equal(await move(path, { ref: inTheWay, from: zeroId, to: first }), false, inTheWay)
    const free = `${inTheWay}-`
    assert.equal(await move(path, { ref: free, from: zeroId, to: first }), true, free)
  }
  await writeFile(join(path, 'packed-refs'), lines.toReversed().join(''))
  // Git sorts it.
  assert.equal(await move(path, { ref: 'refs/heads/free', from: zeroId, to: first }), false)
})

test('of creations at once, here and by git, one succeeds, also where one ref is within another', async () => {
  await using site = await createRepository()
  const { path, first } = site
  const attempt = (name: string) =>
    move(path, { ref: `refs/heads/${name}`, from: zeroId, to: first })
  const byGit = (name: string) =>
    site.git('update-ref', `refs/heads/${name}`, first, zeroId).then(
      () => true,
      () => false,
    )
  for (let round = 0; round < 20; round++) {
    const name = `r${round}`
    const same = await Promise.all([attempt(name), attempt(name), byGit(name)])
    assert.ok(same.filter(Boolean).length <= 1, `${round}: ${same}`)
    const other = `s${round}`
    const within = await Promise.all([attempt(other), attempt(`${other}/x`), byGit(`${other}/y`)])
    assert.ok(!within[0] || !(within[1] || within[2]), `${round}: ${within}`)
  }
  await site.git('fsck')
})

test('a ref with another value, a symbolic one, and one with a log are left to git', async () => {
  await using site = await createRepository()
  const { path, first, second, third } = site
  const given = { ref, from: first, to: second }
  assert.equal(await move(path, { ...given, from: third }), false)
  assert.equal(await move(path, { ...given, ref: 'refs/heads/none' }), false)
  await site.git('symbolic-ref', 'refs/heads/other', ref)
  assert.equal(await move(path, { ...given, ref: 'refs/heads/other' }), false)
  await mkdir(join(path, 'logs/refs/heads'), { recursive: true })
  await writeFile(join(path, 'logs', ref), '')
  assert.equal(await move(path, given), false)
  assert.equal(await site.value(), first)
  // No lock is left.
  await site.git('update-ref', ref, second, first)
})

test('a packed ref with a folder in place of its file is left to git, which removes the folder', async () => {
  await using site = await createRepository()
  const { path, first, second } = site
  await site.git('pack-refs', '--all')
  // As git leaves it when it refuses to create `refs/heads/main/new`.
  await mkdir(join(path, ref))
  assert.equal(await move(path, { ref, from: first, to: second }), false)
  assert.equal(await site.value(), first)
  await site.git('update-ref', ref, second, first)
  assert.equal(await site.value(), second)
})

test('a ref that is locked is left alone, and so is its lock', async () => {
  await using site = await createRepository()
  const { path, first, second } = site
  const lock = join(path, `${ref}.lock`)
  await writeFile(lock, 'of another')
  assert.equal(await move(path, { ref, from: first, to: second }), false)
  assert.equal(await readFile(lock, 'utf8'), 'of another')
  assert.equal(await site.value(), first)
})

test('of moves at once, here and by git, one succeeds', async () => {
  await using site = await createRepository()
  const { path, first, second, third } = site
  let from = first
  for (let round = 0; round < 20; round++) {
    const [one = '', other = ''] = [first, second, third].filter((value) => value !== from)
    const here = [one, other].map((to) => move(path, { ref, from, to }))
    const byGit = site.git('update-ref', ref, other, from).then(
      () => true,
      () => false,
    )
    const moved = await Promise.all([...here, byGit])
    assert.equal(moved.filter(Boolean).length, 1, `round ${round}: ${moved}`)
    from = await site.value()
  }
})
