// Tags: exhaustive
import assert from 'node:assert/strict'
import { readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { findProgram } from '#base/find-program.ts'
import { until } from '../support/condition.ts'
import { createPrograms } from '../support/doctor.ts'
import { createProject, git, temporaryFolder } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { launcher, startService } from '../support/service.ts'

/** How often each git command of a push asked the disk to have a file, by name. */
type Syncs = Record<string, number>

// A push of several refs is served by git receive-pack; push-small.test.ts has the others.

test('git syncs everything that it writes for a push: packs with indexes, refs, packed refs', async () => {
  await using site = await startTracedSite()
  await using project = await createProject()
  const push = (...args: string[]) => project.git('push', '--quiet', site.remote, ...args)

  await push('HEAD:main', 'HEAD:third')
  assert.deepEqual(await site.syncs(), { 'index-pack': await site.packFiles(), 'receive-pack': 2 })

  const before = await site.packFiles()
  await project.commit('second.txt')
  await push('HEAD:main', 'HEAD:other')
  const { 'index-pack': ofPack = 0, ...rest } = await site.syncs()
  assert.deepEqual(rest, { 'receive-pack': 2 })
  const packFiles = (await site.packFiles()) - before
  assert.ok(ofPack >= packFiles, `${ofPack} syncs of ${packFiles} files`)

  await site.packRefs()
  await push('--delete', 'other')
  assert.deepEqual(await site.syncs(), { 'receive-pack': 1 })
})

test('objects are on disk before the intended updates, and these before a ref moves', {
  skip: without('strace'),
}, async () => {
  await using folder = await temporaryFolder()
  const trace = join(folder.path, 'trace')
  const strace = `exec strace -D -f -qq -y -e trace=fsync,fdatasync -o '${trace}'`
  await using programs = await createPrograms({ traced: `${strace} '${launcher}' "$@"` })
  await using service = await startService({ program: join(programs.path, 'traced') })
  await using project = await createProject()
  await service.admin.post('/repos', { name: 'site' })
  await project.git('push', '--quiet', service.admin.remote('site'), 'HEAD:main', 'HEAD:other')

  const synced = await until('the ref is synced', async () => {
    const all = syncedIn(await readText(trace))
    const end = all.indexOf('main.lock')
    return end !== -1 && all.slice(0, end + 1)
  })
  const kinds = synced.map((name) => name.replace(/^(tmp_[a-z]+)_.*/, '$1'))
  const ofPush = kinds.slice(kinds.findIndex((kind) => kind.startsWith('tmp_')))
  assert.deepEqual(new Set(ofPush), new Set(['tmp_pack', 'tmp_idx', 'svc.db-wal', 'main.lock']))
  assert.deepEqual(ofPush.slice(-2), ['svc.db-wal', 'main.lock'])
  const last = (kind: string) => ofPush.lastIndexOf(kind)
  assert.ok(Math.max(last('tmp_pack'), last('tmp_idx')) < last('svc.db-wal'))
})

/** A service with the repository `site`, whose git processes report what they sync: `GIT_TRACE2_EVENT`. */
async function startTracedSite() {
  await using starting = new AsyncDisposableStack()
  const folder = starting.use(await temporaryFolder())
  const real = findProgram('git', process.env.PATH ?? '')
  const tracing = `GIT_TRACE2_EVENT='${folder.path}' exec '${real}' "$@"`
  const programs = starting.use(await createPrograms({ git: tracing }))
  const service = starting.use(await startService({ env: { PATH: programs.first } }))
  const { body } = await service.admin.post('/repos', { name: 'site' })
  const directory = join(service.dataDir, 'repositories', body.id.slice(-2), `${body.id}.git`)
  const seen = new Set<string>()
  const running = starting.move()

  return {
    remote: service.admin.remote('site'),

    /** What the gits of pushes have synced since it was asked before. */
    async syncs(): Promise<Syncs> {
      const syncs: Syncs = {}
      for (const name of await readdir(folder.path)) {
        if (seen.has(name)) continue
        seen.add(name)
        const path = join(folder.path, name)
        const [, command = ''] =
          /"name":"(receive-pack|index-pack)"/.exec(await readText(path)) ?? []
        if (command !== '') syncs[command] = (syncs[command] ?? 0) + (await countSyncs(path))
      }
      return syncs
    },

    /** How many files the packs consist of. */
    packFiles: async () => (await readdir(join(directory, 'objects', 'pack'))).length,

    packRefs: () => git(directory, ['pack-refs', '--all']),

    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

// The events of a git, one a line. Git 2.39 reports syncs with `data`, later ones with `counter`: api-trace2.
async function countSyncs(path: string): Promise<number> {
  const text = await until('git has ended', async () => {
    const text = await readText(path)
    return text.includes('"event":"atexit"') && text
  })
  const counts = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
    .filter(({ category }) => category === 'fsync')
    .map(({ value, count }) => Number(value ?? count))
  return counts.reduce((sum, count) => sum + count, 0)
}

function syncedIn(trace: string): string[] {
  return [...trace.matchAll(/\bf(?:data)?sync\(\d+<(.+?)>/g)].map(([, path = '']) => basename(path))
}

function readText(path: string): Promise<string> {
  return readFile(path, 'utf8')
}
