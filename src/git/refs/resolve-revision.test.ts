import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { createProject, type Project } from '../../../test/support/git.ts'
import { gitLimits } from '../../../test/support/git-limits.ts'
import { AmbiguousObjectError, openObjects } from '../objects/object-reader.ts'
import { createGit } from '../process/git-process.ts'
import { isReachable } from './ancestry.ts'
import { readRefs } from './refs.ts'
import { resolveRevision } from './resolve-revision.ts'

test('a revision is a full ref, a branch, a tag or an id, in this order', async () => {
  await using project = await createProject()
  const first = await project.git('rev-parse', 'HEAD')
  const second = await project.commit('second.txt')
  await project.git('branch', 'both', first)
  await project.git('tag', 'both', second)
  await project.git('branch', 'refs/tags/both', first)
  await project.git('tag', '-a', '-m', 'note', 'noted', first)
  await project.git('tag', 'tree', 'HEAD^{tree}')
  const tag = await project.git('rev-parse', 'noted')
  const resolve = resolverOf(project)
  assert.deepEqual(await resolve('both'), { id: first, type: 'commit', ref: 'refs/heads/both' })
  const full = { id: second, type: 'commit', ref: 'refs/tags/both' }
  assert.deepEqual(await resolve('refs/tags/both'), full)
  assert.deepEqual(await resolve('noted'), { id: tag, type: 'tag', ref: 'refs/tags/noted' })
  assert.equal((await resolve('tree'))?.type, 'tree')
  for (const name of [first, first.slice(0, 7), first.slice(0, 12).toUpperCase()])
    assert.deepEqual(await resolve(name), { id: first, type: 'commit', ref: undefined })
})

test('expressions, hidden refs and other names are no revisions', async () => {
  await using project = await createProject()
  const id = await project.git('rev-parse', 'HEAD')
  await project.git('update-ref', 'refs/svc/kept/x', id)
  await project.git('update-ref', 'refs/remotes/origin/main', id)
  const resolve = resolverOf(project)
  const none = [
    ...['HEAD', '@', 'main~0', 'main^{tree}', ':readme.txt', 'main:readme.txt', 'heads/main', ''],
    ...['refs/svc/kept/x', 'origin/main', id.slice(0, 6), `${id}0`, 'main\n', '-main', 'a/..'],
    `main-g${id.slice(0, 7)}`,
    '0'.repeat(40),
  ]
  for (const name of none) assert.equal(await resolve(name), undefined, name)
  assert.equal((await resolve('refs/remotes/origin/main'))?.id, id)
})

test('the start of several ids is ambiguous, and so is one that Git takes as a ref', async () => {
  await using project = await createProject()
  const id = await project.git('rev-parse', 'HEAD')
  const other = await project.commit('other.txt')
  const resolve = resolverOf(project)
  const short = id.slice(0, 7)
  await project.git('update-ref', `refs/remotes/${short}`, other)
  await assert.rejects(resolve(short), AmbiguousObjectError)
  assert.equal((await resolve(id))?.id, id)
  await writeFile(join(project.path, 'left'), '20738')
  await writeFile(join(project.path, 'right'), '37901')
  await project.git('hash-object', '-w', 'left', 'right')
  await assert.rejects(resolve('65ba8ca'), AmbiguousObjectError)
})

test('the first digits of an id find only commits that visible refs lead to', async () => {
  await using project = await createProject()
  const blob = await project.git('rev-parse', 'HEAD:readme.txt')
  const first = await project.git('rev-parse', 'HEAD')
  const lost = await project.commit('lost.txt')
  await project.git('update-ref', 'refs/svc/kept/lost', lost)
  await project.git('reset', '--hard', '--quiet', first)
  const tagged = await project.commit('tagged.txt')
  await project.git('tag', '-a', '-m', 'note', 'noted')
  await project.git('reset', '--hard', '--quiet', first)
  const resolve = resolverOf(project)
  for (const id of [first, tagged]) assert.equal((await resolve(id.slice(0, 9)))?.id, id)
  for (const id of [lost, blob]) {
    assert.equal((await resolve(id))?.id, id)
    assert.equal(await resolve(id.slice(0, 9)), undefined)
    assert.equal(await resolve(id.slice(0, 39)), undefined)
  }
})

function resolverOf(project: Project) {
  const git = createGit({ settings: gitLimits, owner: 'test', path: process.env.PATH ?? '' })
  const directory = join(project.path, '.git')
  return async (revision: string) => {
    await using objects = await openObjects(git, directory)
    return await resolveRevision(
      {
        readRefs: (names) => readRefs(directory, names),
        objects,
        isReachable: (id) => isReachable(git, directory, id),
      },
      revision,
    )
  }
}
