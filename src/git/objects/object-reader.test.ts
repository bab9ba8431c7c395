import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { createProject, spawnGit } from '../../../test/support/git.ts'
import { gitLimits } from '../../../test/support/git-limits.ts'
import { createGit } from '../process/git-process.ts'
import { createObjectPool } from './object-pool.ts'
import { AmbiguousObjectError, ObjectTooLargeError, openObjects } from './object-reader.ts'

const git = createGit({ settings: gitLimits, owner: 'test', path: process.env.PATH ?? '' })

test('concurrent reads get their own objects, small and large, found and missing', async () => {
  await using project = await createProject()
  const directory = join(project.path, '.git')
  await using objects = await openObjects(git, directory)
  const texts = ['', 'a', '\n', 'x'.repeat(70_000), randomBytes(2_000_000).toString('latin1')]
  const ids: string[] = []
  for (const [index, text] of texts.entries()) {
    await project.commit(`file-${index}`, text)
    ids.push(await project.git('rev-parse', `HEAD:file-${index}`))
  }
  const absent = 'f'.repeat(40)
  const wanted = Array.from({ length: 200 }, (_, index) => [...ids, absent][index % 6] ?? '')
  const found = await Promise.all(wanted.map((id) => objects.read(id, 10_000_000)))
  for (const [index, object] of found.entries()) {
    const text = texts[index % 6]
    assert.equal(object?.content.toString('utf8'), text)
    assert.equal(object?.id, text === undefined ? undefined : wanted[index])
  }
})

test('a name with a line feed, which would be a command of its own, finds nothing', async () => {
  await using project = await createProject()
  await using objects = await openObjects(git, join(project.path, '.git'))
  const head = await project.git('rev-parse', 'HEAD')
  assert.equal(await objects.find(`${head}\ninfo ${head}`), undefined)
  assert.equal((await objects.find(head))?.type, 'commit')
})

test('an object beyond the limit, and the first digits of several ids, are errors', async () => {
  await using project = await createProject()
  await using objects = await openObjects(git, join(project.path, '.git'))
  const head = await project.git('rev-parse', 'HEAD')
  await assert.rejects(objects.read(head, 10), ObjectTooLargeError)
  const blobs = Array.from({ length: 2000 }, (_, index) => `blob\ndata 4\n${1000 + index}\n`)
  const importing = spawnGit(project.path, ['fast-import', '--quiet'])
  importing.stdin.end(blobs.join(''))
  await once(importing, 'close')
  const all = await project.git('cat-file', '--batch-all-objects', '--batch-check=%(objectname)')
  // Git looks for new packs only when it knows no object with these digits, so not with those of the commit.
  const digits = all
    .split('\n')
    .map((id) => id.slice(0, 4))
    .filter((one) => one !== head.slice(0, 4))
  const shared = digits.find((one, index) => digits.indexOf(one) !== index) ?? ''
  await assert.rejects(objects.find(shared), AmbiguousObjectError)
  assert.equal((await objects.find(head.slice(0, 12)))?.id, head)
})

test('an object that was found by its id is found again without git', async () => {
  await using project = await createProject()
  let sent = () => 0
  const counting: typeof git = {
    ...git,
    async start(command, options) {
      const child = await git.start(command, options)
      sent = () => (child.stdin as Socket).bytesWritten
      return child
    },
  }
  await using objects = await openObjects(counting, join(project.path, '.git'))
  const head = await project.git('rev-parse', 'HEAD')
  const found = await objects.find(head)
  const before = sent()
  assert.deepEqual(await objects.find(head), found)
  assert.equal(sent(), before)
  await objects.find('HEAD')
  assert.ok(sent() > before)
})

test('a pool starts one process for a repository, and another one when it was killed', async () => {
  await using project = await createProject()
  const directory = join(project.path, '.git')
  let [starts, kill] = [0, () => {}]
  const counting: typeof git = {
    ...git,
    async start(command, options) {
      starts += 1
      const child = await git.start(command, options)
      kill = () => void child[Symbol.asyncDispose]()
      return child
    },
  }
  await using pool = createObjectPool({ git: counting })
  const head = await project.git('rev-parse', 'HEAD')
  const read = () => pool.of(directory).read(head, 10_000)
  await Promise.all([read(), read(), read()])
  assert.equal(starts, 1)
  kill()
  const after = await Promise.all([read(), read()])
  assert.deepEqual(
    after.map((object) => object?.id),
    [head, head],
  )
  assert.equal(starts, 2)
})

test('a pool keeps few idle processes, and ends all of them when it is disposed', async () => {
  await using first = await createProject()
  await using second = await createProject()
  const before = git.count()
  await using pool = createObjectPool({ git, maxIdle: 1 })
  for (const project of [first, second]) {
    const head = await project.git('rev-parse', 'HEAD')
    assert.equal((await pool.of(join(project.path, '.git')).find(head))?.type, 'commit')
  }
  assert.equal(pool.count(), 1)
  await pool[Symbol.asyncDispose]()
  assert.equal(git.count(), before)
})

test('reads that a pool ends when it is disposed start no other process', async () => {
  await using project = await createProject()
  const directory = join(project.path, '.git')
  let starts = 0
  const counting: typeof git = {
    ...git,
    start(command, options) {
      starts += 1
      return git.start(command, options)
    },
  }
  const pool = createObjectPool({ git: counting })
  const head = await project.git('rev-parse', 'HEAD')
  const reads = Array.from({ length: 100 }, () => pool.of(directory).find(head))
  const settled = Promise.allSettled(reads)
  await pool[Symbol.asyncDispose]()
  await settled
  await assert.rejects(pool.of(directory).find(head), /closed/)
  assert.equal(starts, 1)
})
