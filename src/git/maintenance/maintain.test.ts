// Tags: exhaustive
import assert from 'node:assert/strict'
import { mkdir, readdir, readFile, rename, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { dayMs } from '#base/clock.ts'
import { createFaultPoint } from '#base/fault-points.ts'
import { createProject, git, type Project, temporaryFolder } from '../../../test/support/git.ts'
import { gitLimits } from '../../../test/support/git-limits.ts'
import { updateRefs } from '../../../test/support/history.ts'
import { leftoversIn } from '../../../test/support/leftovers.ts'
import { createGit } from '../process/git-process.ts'
import { hasRefs, readAllRefs, readRefs } from '../refs/refs.ts'
import { expiredFolder, restoreExpired } from './leftovers.ts'
import { type MaintenanceExtent, maintain, measurePacks } from './maintain.ts'

const mib = 1024 ** 2
const fortnightMs = 14 * dayMs

test('many packs become one, with an index, a bitmap and a graph, and refs become one file', async () => {
  await using site = await createSite()
  for (const name of ['a', 'b', 'c']) {
    await site.project.commit(name)
    await site.push('HEAD:main', `HEAD:refs/tags/${name}`)
  }
  const before = await site.refs()
  await site.maintain('quick')
  assert.equal((await measurePacks(site.path)).packs, 1)
  assert.equal(await site.refs(), before)
  const packs = (await readdir(join(site.path, 'objects/pack'))).join(' ')
  assert.match(packs, /multi-pack-index-[0-9a-f]{40}\.bitmap/)
  assert.deepEqual(await readdir(join(site.path, 'refs/tags')), [])
  await site.git('rev-list', '--test-bitmap', 'main')
  const { stderr } = await git('/', ['clone', '--progress', `file://${site.path}`, site.copy])
  assert.match(stderr, /pack-reused [1-9]/)
})

test('the graph has filters of changed paths, also of commits that an older one has without', async () => {
  await using site = await createSite()
  await site.push('HEAD:main')
  await site.git('commit-graph', 'write', '--reachable', '--split')
  assert.equal(await hasFilters(site.path), false)
  await site.project.commit('a')
  await site.push('HEAD:main')
  await site.maintain('quick')
  assert.equal(await hasFilters(site.path), true)
  await site.maintain('full')
  await site.git('commit-graph', 'verify')
  const events = await filterEvents(site.path, 'no-such-file')
  // Every commit is skipped by its filter.
  assert.match(events, /"filter_not_present":0,/)
  assert.match(events, /"definitely_not":[1-9]/)
  assert.equal(await bitsPerPath(site.path), 64)
})

/** A setting of the filters of a graph: gitformat-commit-graph(5). */
async function bitsPerPath(path: string): Promise<number | undefined> {
  const folder = join(path, 'objects/info/commit-graphs')
  const [name = ''] = (await readdir(folder)).filter((one) => one.endsWith('.graph'))
  const graph = await readFile(join(folder, name))
  const data = graph.readUIntBE(graph.indexOf('BDAT') + 6, 6)
  return graph.readUInt32BE(data + 8)
}

/** The trace of a log of a path: its last event has statistics of filters. */
async function filterEvents(path: string, name: string): Promise<string> {
  const trace = join(path, 'trace')
  await git(path, ['log', 'main', '--', name], { GIT_TRACE2_EVENT: trace })
  return readFile(trace, 'utf8')
}

/** Whether a file of the graph has the chunk BIDX: gitformat-commit-graph(5). */
async function hasFilters(path: string): Promise<boolean> {
  const folder = join(path, 'objects/info/commit-graphs')
  const names = (await readdir(folder)).filter((name) => name.endsWith('.graph'))
  const graphs = await Promise.all(names.map((name) => readFile(join(folder, name))))
  return graphs.some((graph) => graph.includes('BIDX'))
}

test('a repository without commits needs no maintenance', async () => {
  await using folder = await temporaryFolder()
  await git(folder.path, ['init', '--quiet', '--bare', '--template=', 'empty.git'])
  const path = join(folder.path, 'empty.git')
  for (const extent of ['quick', 'full'] as const) await maintainAt(path, extent)
  assert.equal((await measurePacks(path)).packs, 0)
})

test('overwritten commits are kept for two weeks, however old their pack is', async () => {
  await using site = await createSite()
  const lost = await site.project.commit('lost')
  await site.push('HEAD:side')
  await site.push(':side')
  const longAgo = new Date(Date.now() - 3 * 365 * dayMs)
  const packs = join(site.path, 'objects/pack')
  for (const name of await readdir(packs)) await utimes(join(packs, name), longAgo, longAgo)

  await site.maintain('full')
  await git('/', ['init', '--quiet', site.copy])
  const fetchLost = ['-c', 'uploadpack.allowAnySHA1InWant=true', 'fetch', site.path, lost]
  await git(site.copy, fetchLost)
  assert.equal((await measurePacks(site.path)).hasCruft, true)
  await site.maintain('quick')
  await site.maintain('full', Date.now() + fortnightMs - dayMs)
  assert.equal(await site.git('cat-file', '-t', lost), 'commit')
  await site.maintain('full', Date.now() + fortnightMs + dayMs)
  await assert.rejects(site.git('cat-file', '-t', lost))
  assert.equal((await measurePacks(site.path)).hasCruft, false)
  await site.fsck()
})

test('objects that a push needs are restored while they are pruned', async () => {
  await using site = await createSite()
  const lost = await site.project.commit('lost')
  await site.push('HEAD:side')
  await site.push(':side')
  // Git has checked the push; all that is left of it is to move the ref.
  const endPush = async () => {
    await writeFile(join(site.path, 'refs/heads/late'), `${lost}\n`)
    return true
  }
  await site.maintain('full', Date.now() + fortnightMs + dayMs, endPush)
  assert.equal(await site.git('cat-file', '-t', 'late'), 'commit')
  assert.deepEqual(await leftoversIn(site.folder), [])
  await site.fsck()
})

test('pruned objects are restored when a push does not end', async () => {
  await using site = await createSite()
  const lost = await site.project.commit('lost')
  await site.push('HEAD:side')
  await site.push(':side')
  await site.maintain('full', Date.now() + fortnightMs + dayMs, async () => false)
  assert.equal(await site.git('cat-file', '-t', lost), 'commit')
  assert.deepEqual(await leftoversIn(site.folder), [])
})

test('after a crash, a half-removed pack is restored and a half-written one dropped', async () => {
  await using site = await createSite()
  const packs = join(site.path, 'objects/pack')
  const waiting = join(site.path, expiredFolder)
  const [index = ''] = (await readdir(packs)).filter((name) => name.endsWith('.idx'))
  const pack = index.replace('.idx', '.pack')
  for (const moved of [[index], [index, pack]]) {
    await mkdir(waiting)
    for (const name of moved) await rename(join(packs, name), join(waiting, name))
    await writeFile(join(waiting, 'pack-0000.pack'), 'half')
    assert.deepEqual(
      (await restoreExpired(site.path)).sort(),
      moved.map((name) => join(packs, name)).sort(),
    )
    await site.fsck()
  }
  await mkdir(waiting)
  await writeFile(join(waiting, 'pack-0000.idx'), await readFile(join(packs, index)))
  assert.deepEqual(await restoreExpired(site.path), [])
  assert.deepEqual(await leftoversIn(site.folder), [])
})

test('refs are never missed while they are being packed, moved and deleted', async () => {
  await using site = await createSite()
  // A busy machine may hold a lock for longer than git waits by default.
  for (const lock of ['core.filesRefLockTimeout', 'core.packedRefsTimeout'])
    await site.git('config', lock, '-1')
  const [first = '', second = ''] = [
    await site.git('rev-parse', 'main'),
    await site.git('rev-parse', 'main^{tree}'),
  ]
  const fixed = Array.from({ length: 50 }, (_, number) => `refs/tags/fixed-${number}`)
  const moving = Array.from({ length: 50 }, (_, number) => `refs/tags/moving-${number}`)
  const create = (refs: string[], id: string) =>
    updateRefs(
      site.path,
      refs.map((ref) => `update ${ref} ${id}`),
    )
  let isDone = false
  let reads = 0

  async function readAgain(): Promise<void> {
    while (!isDone) {
      assert.equal(await hasRefs(site.path, 'any'), true)
      const all = await readAllRefs(site.path)
      const some = await readRefs(site.path, fixed)
      for (const ref of fixed) assert.deepEqual([all.get(ref), some.get(ref)], [first, first], ref)
      for (const ref of moving) assert.ok([first, second].includes(all.get(ref) ?? ''), ref)
      reads += 1
    }
  }
  await create([...fixed, ...moving], first)
  const reading = Promise.all([readAgain(), readAgain(), readAgain()])
  reading.catch(() => {}) // It is awaited in the end.
  try {
    for (let round = 0; round < 12; round++) {
      await Promise.all([
        create(moving, round % 2 === 0 ? second : first),
        create(
          fixed.map((ref) => ref.replace('fixed', `passing-${round}`)),
          first,
        ),
        maintainAt(site.path, 'refs'),
      ])
      // Git writes no ref that has its value already; as a file of its own it can be packed once more.
      for (const ref of fixed) {
        await writeFile(join(site.folder, 'draft'), `${first}\n`)
        await rename(join(site.folder, 'draft'), join(site.path, ref))
      }
    }
  } finally {
    isDone = true
  }
  await reading
  assert.ok(reads > 10)
})

/** A bare repository with a commit on `main` in a pack, and a project to push from. */
async function createSite() {
  const folder = await temporaryFolder()
  const project: Project = await createProject()
  const path = join(folder.path, 'repositories', '00', 'site.git')
  await git(folder.path, [
    'init',
    '--quiet',
    '--bare',
    '--template=',
    '--initial-branch=main',
    path,
  ])
  await git(path, ['config', 'receive.unpackLimit', '1'])
  const site = {
    path,
    folder: folder.path,
    /** Where there is nothing yet. */
    copy: join(folder.path, 'copy'),
    project,
    git: async (...args: string[]) => (await git('/', ['--git-dir', path, ...args])).stdout,
    push: (...specs: string[]) => project.git('push', '--quiet', '--force', path, ...specs),
    refs: () => site.git('for-each-ref'),
    fsck: () => site.git('fsck', '--full', '--strict'),
    maintain: (
      extent: MaintenanceExtent,
      now?: number,
      waitForOtherHolds?: () => Promise<boolean>,
    ) => maintainAt(path, extent, now, waitForOtherHolds),
    async [Symbol.asyncDispose]() {
      await project[Symbol.asyncDispose]()
      await folder[Symbol.asyncDispose]()
    },
  }
  await site.push('HEAD:main')
  return site
}

function maintainAt(
  path: string,
  extent: MaintenanceExtent,
  now = Date.now(),
  waitForOtherHolds = async () => true,
): Promise<unknown> {
  const program = {
    owner: path,
    settings: gitLimits,
    path: process.env.PATH ?? '',
  }
  return maintain(path, {
    git: createGit(program),
    extent,
    expireBefore: now - fortnightMs,
    memoryMaxBytes: 512 * mib,
    watch: () => {},
    waitForOtherHolds,
    faultPoint: createFaultPoint(undefined),
    signal: new AbortController().signal,
  })
}
