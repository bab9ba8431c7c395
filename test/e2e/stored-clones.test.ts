// Tags: each-store

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readdir, readlink, rename, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { readFingerprint } from '#base/file-fingerprint.ts'
import { clonePacksFile, readClonePacks } from '#git/clone-packs/clone-packs.ts'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import {
  type FetchService,
  type FetchSite,
  fetchBody,
  parseAnswer,
  startFetchService,
} from '../support/fetch-site.ts'
import { git } from '../support/git.ts'
import { isShared, onlyLocal } from '../support/kind-of-store.ts'
import { idDigits } from '../support/object-format.ts'
import { without } from '../support/programs.ts'
import { createRandom } from '../support/random.ts'
import { toRounds } from '../support/rounds.ts'
import { createSshUser } from '../support/ssh-user.ts'
import { withSsh } from '../support/test-settings.ts'

// Git serves smaller repositories when there is anything newer than their packs.
const largeBytes = 3 * 1024 * 1024

const seed = Number(process.env.SVC_CRASH_SEED ?? Date.now() % 1_000_000)

let shared: FetchService
let sites = 0

before(async () => {
  shared = await startFetchService({ env: withSsh })
})

after(() => shared[Symbol.asyncDispose]())

/** A repository on the server that tests share, with a large file on `trunk`, its default branch, and some refs. */
async function createSite(): Promise<FetchSite> {
  const site = await shared.createSite(`stored-${sites++}`)
  await site.project.git('branch', '--move', 'main', 'trunk')
  await site.project.commit('large.bin', randomBytes(largeBytes))
  await site.project.git('tag', '--annotate', '--message', 'One', 'v1')
  await site.project.git('tag', 'light')
  await site.push('trunk', 'HEAD~:refs/heads/old', 'v1', 'light')
  return site
}

/** Clones all refs, and checks that the clone has exactly the objects that they reach; their number. */
async function cloneAll(site: FetchSite, ...args: string[]): Promise<number> {
  const copy = join(site.folder, `copy-${randomBytes(4).toString('hex')}`)
  // As a client that checks all objects: it refuses a pack that has one of them twice.
  const config = ['-c', 'transfer.fsckObjects=true']
  await git('/', [...config, 'clone', '--quiet', '--mirror', ...args, site.remote, copy])
  return checkObjects(copy)
}

async function checkObjects(copy: string): Promise<number> {
  const names = async (...words: string[]) =>
    new Set((await git(copy, words)).stdout.trim().split('\n'))
  await git(copy, ['fsck', '--strict'])
  const all = await names('cat-file', '--batch-all-objects', '--batch-check=%(objectname)')
  const reached = await names('rev-list', '--objects', '--no-object-names', '--all')
  assert.deepEqual(all, reached)
  return all.size
}

const countOf = async (site: FetchSite) => (await site.sources()).packs ?? 0

test('a maintained repository is cloned from its pack, without a git process', async () => {
  await using site = await createSite()
  await site.maintain('quick')
  const packs = await site.packs()
  const objects = await cloneAll(site)
  assert.deepEqual(await site.sources(), { packs: 1 })
  assert.equal(await site.packs(), packs)
  const [recorded] = await readClonePacks(site.directory)
  assert.equal(recorded?.packs[0]?.objects, objects)
  // A checkout names all that is wanted, too.
  await git(site.folder, ['clone', '--quiet', site.remote, 'checkout'])
  assert.deepEqual(await site.sources(), { packs: 2 })
  const { stdout } = await git(join(site.folder, 'checkout'), ['status', '--porcelain'])
  assert.equal(stdout, '')
})

test('newer commits, branches and tags follow the stored objects', async () => {
  await using site = await createSite()
  await site.maintain('quick')
  await site.project.commit('second.txt')
  await site.project.git('tag', '--annotate', '--message', 'Two', 'v2')
  await site.push('HEAD:trunk', 'HEAD:refs/heads/topic', 'v2')
  const before = await cloneAll(site)
  await site.project.git('tag', '--annotate', '--message', 'Of what is stored', 'late', 'HEAD~')
  await site.push('late')
  assert.equal(await cloneAll(site), before + 1)
  await site.push(':topic')
  await cloneAll(site)
  assert.equal(await countOf(site), 3)
})

test('requests for the same at the same time share the newer objects', exhaustive, async () => {
  await using site = await createSite()
  await site.maintain('quick')
  await site.project.commit('second.txt')
  await site.push('HEAD:trunk')
  await site.settle()
  const record = join(site.directory, clonePacksFile)
  await until('the record is settled', () => readFingerprint(record)?.isSettled)
  const before = await site.packs()
  await Promise.all(Array.from({ length: 6 }, () => cloneAll(site)))
  assert.equal(await countOf(site), 6)
  assert.equal((await site.packs()) - before, 1)
})

test('what no ref reaches any more is not sent', exhaustive, async () => {
  await using site = await createSite()
  await site.project.git('checkout', '--quiet', '-b', 'topic')
  const lost = await site.project.commit('secret.txt')
  await site.push('topic', 'HEAD:refs/heads/side')
  await site.maintain('quick')
  await cloneAll(site)
  assert.equal(await countOf(site), 1)
  // Still reached by another branch.
  await site.push(':side')
  await cloneAll(site)
  assert.equal(await countOf(site), 2)
  // Overwritten and retained for undo, then packed again with it.
  await site.project.git('commit', '--quiet', '--amend', '--message', 'Amended')
  await site.push('--force', 'topic')
  for (const extent of [undefined, 'quick'] as const) {
    if (extent) await site.maintain(extent)
    const copy = join(site.folder, `without-${extent}`)
    await git('/', ['clone', '--quiet', '--mirror', site.remote, copy])
    await assert.rejects(git(copy, ['cat-file', '-e', lost]))
    await checkObjects(copy)
  }
  assert.equal(await countOf(site), 2)
})

test('a full maintenance separates the default branch from commits that are retained', {
  ...exhaustive,
  skip: onlyLocal,
}, async () => {
  await using site = await createSite()
  await site.project.git('checkout', '--quiet', '-b', 'topic')
  const lost = await site.project.commit('secret.txt')
  await site.push('topic')
  await site.project.git('commit', '--quiet', '--amend', '--message', 'Amended')
  await site.push('--force', 'topic')
  const { stdout: kept } = await git('/', ['--git-dir', site.directory, 'for-each-ref', 'refs/svc'])
  assert.match(kept, new RegExp(lost))
  await site.maintain('full')
  await git('/', ['--git-dir', site.directory, 'fsck', '--full', '--strict'])
  await git('/', ['--git-dir', site.directory, 'cat-file', '-e', lost])
  const files = await readdir(join(site.directory, 'objects', 'pack'))
  assert.deepEqual(
    files.filter((name) => name.endsWith('.keep')),
    [],
  )
  for (const isChanged of [false, true]) {
    if (isChanged) await site.push('--force', 'trunk:topic')
    await cloneAll(site)
  }
  assert.equal(await countOf(site), 2)
})

test('a deleted annotated tag is not sent, though its commit is', async () => {
  await using site = await createSite()
  await site.maintain('quick')
  const before = await cloneAll(site)
  await site.push(':v1')
  assert.equal(await cloneAll(site), before - 1)
  assert.equal(await countOf(site), 1)
})

for (const [what, args] of [
  ['of one branch', ['--single-branch', '--branch', 'old']],
  ['of some depth', ['--depth', '1']],
  ['without files', ['--filter', 'blob:none', '--bare']],
] as const) {
  test(`a clone ${what} is served by git`, async () => {
    await using site = await createSite()
    await site.maintain('quick')
    await git(site.folder, ['clone', '--quiet', ...args, site.remote, 'copy'])
    const sources = Object.keys(await site.sources())
    assert.equal(sources.length, 1)
    assert.ok(!sources.includes('packs'))
  })
}

for (const version of [0, 1, 2]) {
  test(`over SSH, with protocol version ${version}`, {
    ...exhaustive,
    skip: without('openssh'),
  }, async () => {
    await using site = await createSite()
    await site.maintain('quick')
    const user = await createSshUser(site.service, site.service.admin)
    await using _user = user
    const copy = join(site.folder, 'copy')
    const clone = ['clone', '--quiet', '--mirror', user.remote(site.name), copy]
    await user.git('/', '-c', `protocol.version=${version}`, ...clone)
    await checkObjects(copy)
    assert.equal((await site.sources('ssh')).packs ?? 0, version === 2 ? 1 : 0)
  })
}

test('a request for an object that is not there is refused by git', async () => {
  await using site = await createSite()
  await site.maintain('quick')
  const tips = (await readClonePacks(site.directory))[0]?.tips ?? new Set()
  const wants = [...tips, 'f'.repeat(idDigits)].map((id) => `want ${id}`)
  const { bytes } = await site.fetch(fetchBody('ofs-delta', ...wants, 'done'))
  assert.match(bytes.toString('latin1'), /not our ref f{40,64}/)
})

test('without offset deltas, git packs', async () => {
  await using site = await createSite()
  await site.maintain('quick')
  const tips = (await readClonePacks(site.directory))[0]?.tips ?? new Set()
  const wants = [...tips].map((id) => `want ${id}`)
  const { bytes } = await site.fetch(fetchBody(...wants, 'done'))
  assert.equal(parseAnswer(bytes).pack.toString('latin1', 0, 4), 'PACK')
  assert.equal(await countOf(site), 0)
})

test('packs that are gone or damaged are not sent', async () => {
  await using site = await createSite()
  await site.maintain('quick')
  const folder = join(site.directory, 'objects', 'pack')
  const [name = ''] = (await readdir(folder)).filter((file) => file.endsWith('.pack'))
  const path = join(folder, name)
  await cloneAll(site)
  assert.equal(await countOf(site), 1)
  // What is gone from a cache is read again.
  if (!isShared) {
    await rename(path, join(site.folder, 'moved'))
    await assert.rejects(cloneAll(site))
    await rename(join(site.folder, 'moved'), path)
  }
  await truncate(path, largeBytes)
  await assert.rejects(cloneAll(site))
  assert.equal(await countOf(site), 1)
})

test('a record that is not whole is ignored', async () => {
  await using site = await createSite()
  await site.maintain('quick')
  const [recorded] = await readClonePacks(site.directory)
  assert.ok(recorded)
  await writeFile(join(site.directory, clonePacksFile), 'version 1\npacks\n')
  await cloneAll(site)
  assert.equal(await countOf(site), 0)
})

test(
  'a client that leaves, or reads slowly while packs are merged, leaves no file open',
  exhaustive,
  async () => {
    await using site = await createSite()
    await site.maintain('quick')
    const tips = (await readClonePacks(site.directory))[0]?.tips ?? new Set()
    const body = fetchBody('ofs-delta', ...[...tips].map((id) => `want ${id}`), 'done')
    const leaving = site.ask(body)
    await leaving.answered
    leaving.leave()
    const slow = site.ask(body)
    const answer = await slow.answered
    await site.project.commit('second.txt')
    await site.push('HEAD:trunk')
    await site.maintain('full')
    const pieces: Buffer[] = []
    for await (const piece of answer) pieces.push(piece)
    const bytes = Buffer.concat(pieces)
    assert.equal(bytes.length, Number(answer.headers['content-length']))
    const pack = join(site.folder, 'received.pack')
    await writeFile(pack, parseAnswer(bytes).pack)
    await git(site.folder, ['init', '--quiet', '--bare', 'empty.git'])
    await git(join(site.folder, 'empty.git'), ['index-pack', '--strict', pack])
    await until('no pack is open', async () => {
      const folder = `/proc/${site.service.pid}/fd`
      const open = await Promise.all(
        (await readdir(folder)).map((fd) => readlink(join(folder, fd)).catch(() => '')),
      )
      return !open.some((path) => path.startsWith(site.directory) && path.includes('.pack'))
    })
  },
)

// A node of a shared store indexes packs itself meanwhile.
test(`clones beside pushes and maintenance are exact (SVC_CRASH_SEED=${seed})`, {
  ...exhaustive,
  skip: onlyLocal,
}, async () => {
  await using site = await createSite()
  const random = createRandom(seed)
  await site.maintain('quick')
  let isDone = false
  const changes = (async () => {
    for (let number = 0; !isDone; number++) {
      const branch = `topic-${random.below(3)}`
      const commit = ['commit', '--quiet', '--allow-empty', '--message', `Change ${number}`]
      await site.project.git('checkout', '--quiet', '-B', 'work', 'trunk')
      await site.project.commit(`file-${number}.bin`, randomBytes(1 + random.below(50_000)))
      if (random.chance(0.3)) await site.push('HEAD:trunk')
      else if (random.chance(0.7)) await site.push('--force', `HEAD:refs/heads/${branch}`)
      else
        await site
          .push('--force', `HEAD~:refs/heads/${branch}`, ':refs/heads/never')
          .catch(() => {})
      if (random.chance(0.3)) await site.push(`:refs/heads/${branch}`).catch(() => {})
      if (random.chance(0.3)) {
        await site.project.git(...commit)
        await site.project.git('tag', '--annotate', '--message', 'x', `tag-${number}`)
        await site.push(`tag-${number}`)
      }
      await site.project.git('fetch', '--quiet', site.remote, '+trunk:trunk')
    }
  })()
  const maintenance = (async () => {
    while (!isDone) await site.maintain(random.chance(0.5) ? 'quick' : 'full')
  })()
  try {
    for (let round = 0; round < toRounds(8); round++) await cloneAll(site)
  } finally {
    isDone = true
    await Promise.all([changes, maintenance])
  }
  assert.ok((await countOf(site)) > 0)
})
