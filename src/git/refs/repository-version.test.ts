import assert from 'node:assert/strict'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { until } from '../../../test/support/condition.ts'
import { createProject, git, temporaryFolder } from '../../../test/support/git.ts'
import {
  createRepositoryVersions,
  type Parts,
  renewRepositoryVersion,
} from './repository-version.ts'

const everything = { objects: true, tags: true }

test('a version changes with the files that it covers, and with nothing else', async () => {
  await using site = await createSite()
  const changes: [string, () => Promise<unknown>, Partial<Parts>][] = [
    ['a push to a branch', () => site.push('HEAD:refs/heads/side'), { objects: false }],
    ['a new pack', () => site.pushNew('refs/heads/main'), { objects: true }],
    ['a tag', () => site.push('HEAD:refs/tags/v1'), { tags: true }],
    ['a tag in a folder', () => site.push('HEAD:refs/tags/a/b/c'), { tags: true }],
    ['a tag beside it', () => site.push('HEAD:refs/tags/a/b/d'), { tags: true }],
    ['another value', () => site.push('+HEAD~1:refs/tags/a/b/c'), { tags: true }],
    ['no tag', () => site.push(':refs/tags/a/b/d'), { tags: true }],
    ['tags that are packed', () => site.git('pack-refs', '--all', '--prune'), { tags: true }],
    ['a packed tag that goes', () => site.push(':refs/tags/v1'), { tags: true }],
    [
      'objects that are pruned',
      () => renewRepositoryVersion(site.path),
      { objects: true, tags: true },
    ],
  ]
  const seen = new Set<string>()
  for (const [what, change, changed] of changes) {
    const before = await Promise.all([site.stamp({ objects: true }), site.stamp({ tags: true })])
    for (const stamp of before) seen.add(stamp)
    await change()
    const after = await Promise.all([site.stamp({ objects: true }), site.stamp({ tags: true })])
    if (changed.objects !== undefined) {
      assert.equal(before[0] !== after[0], changed.objects, `${what}: objects`)
      if (changed.objects) assert.ok(!seen.has(after[0]), what)
    }
    assert.equal(before[1] !== after[1], changed.tags ?? false, `${what}: tags`)
    if (changed.tags) assert.ok(!seen.has(after[1]), what)
  }
})

test('right after a change there is no version, as another change could yield the same', async () => {
  await using site = await createSite()
  await site.stamp(everything)
  const before = Date.now()
  await writeFile(join(site.path, 'refs/tags/new'), await site.git('rev-parse', 'main'))
  const stamp = site.stamps.stamp(site.path, everything)
  // On a machine that stood still meanwhile it has aged.
  if (Date.now() - before < 100) assert.equal(stamp, undefined)
  assert.ok(await site.stamp(everything))
})

test('a repository without a tags directory has a version', async () => {
  await using site = await createSite()
  await rm(join(site.path, 'refs/tags'), { recursive: true })
  assert.ok(await site.stamp(everything))
})

test('a deleted repository, or one with deeply nested tags, has no version', async () => {
  await using site = await createSite()
  for (let n = 0; n < 70; n++) await mkdir(join(site.path, `refs/tags/folder-${n}`))
  assert.ok(await site.stamp({ objects: true }))
  assert.equal(site.stamps.stamp(site.path, everything), undefined)
  await rm(site.path, { recursive: true })
  assert.equal(site.stamps.stamp(site.path, { objects: true, tags: false }), undefined)
})

async function createSite() {
  await using starting = new AsyncDisposableStack()
  const folder = starting.use(await temporaryFolder())
  const project = starting.use(await createProject())
  const path = join(folder.path, 'site.git')
  await project.commit('second')
  await git('/', ['clone', '--quiet', '--bare', project.path, path])
  await git(path, ['config', 'receive.unpackLimit', '1'])
  const stamps = createRepositoryVersions()
  const started = starting.move()
  return {
    path,
    stamps,
    git: async (...args: string[]) => (await git('/', ['--git-dir', path, ...args])).stdout,
    push: (...specs: string[]) => project.git('push', '--quiet', path, ...specs),
    async pushNew(ref: string) {
      await project.commit(`file-${Date.now()}`)
      await project.git('push', '--quiet', path, `HEAD:${ref}`)
    },
    /** The stamp, once everything is old enough. */
    stamp: (parts: Partial<Parts>) =>
      until('there is a stamp', () =>
        stamps.stamp(path, { objects: false, tags: false, ...parts }),
      ),
    [Symbol.asyncDispose]: () => started.disposeAsync(),
  }
}
