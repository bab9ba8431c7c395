import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { exhaustive } from '../support/exhaustive.ts'
import {
  type FetchService,
  type FetchSite,
  fetchBody,
  parseAnswer,
  startFetchService,
} from '../support/fetch-site.ts'
import { git, projectAt } from '../support/git.ts'
import { onlyLocal } from '../support/kind-of-store.ts'
import { idDigits } from '../support/object-format.ts'
import { createRandom } from '../support/random.ts'
import { toRounds } from '../support/rounds.ts'

const options = { skip: onlyLocal }
const seed = Number(process.env.SVC_CRASH_SEED ?? Date.now() % 1_000_000)
let shared: FetchService
let sites = 0

before(async () => {
  shared = await startFetchService()
})

after(() => shared[Symbol.asyncDispose]())

const text = (lines: number) =>
  Array.from({ length: lines }, () => `${randomBytes(12).toString('hex')}\n`).join('')

/** A repository with some files, and a clone of it that checks what it fetches. */
async function createSite() {
  const site = await shared.createSite(`recent-${sites++}`)
  for (const name of ['a.txt', 'b.txt']) await site.project.commit(name, text(200))
  await mkdir(join(site.project.path, 'src'))
  await site.project.commit('src/c.txt', text(200))
  await site.push('main')
  const path = join(site.folder, 'copy')
  await git('/', ['clone', '--quiet', site.remote, path])
  const copy = projectAt(path)
  await copy.git('config', 'transfer.fsckObjects', 'true')
  return { ...site, copy }
}

/** Fetches in the clone, which must be whole afterwards; how many fetches pushed packs have answered so far. */
async function fetchInto({ copy, project, sources }: Awaited<ReturnType<typeof createSite>>) {
  await copy.git('fetch', '--quiet')
  await copy.git('fsck', '--strict', '--connectivity-only')
  assert.equal(await copy.git('rev-parse', 'origin/main'), await project.git('rev-parse', 'main'))
  return (await sources()).packs ?? 0
}

async function change(site: FetchSite, name: string, lines = 200) {
  await site.project.commit(name, text(lines))
  await site.push('main')
}

test("a client with the push's base gets the pushed pack", options, async () => {
  await using site = await createSite()
  await change(site, 'd.txt')
  const packs = await site.packs()
  assert.equal(await fetchInto(site), 1)
  assert.equal(await site.packs(), packs)
})

test('several pushes are fetched at once, also with deltas to each other', options, async () => {
  await using site = await createSite()
  let content = await site.project.git('show', 'HEAD:a.txt')
  for (let number = 0; number < 5; number++) {
    content += `\nline ${number}`
    await site.project.commit('a.txt', content)
    await site.project.commit(`src/new-${number}.txt`, content)
    await site.push('main')
  }
  assert.equal(await fetchInto(site), 1)
})

test(
  'a file that others do not have yet is fetched, though the server had it',
  options,
  async () => {
    await using site = await createSite()
    await site.project.git('checkout', '--quiet', '-b', 'side')
    await site.project.commit('side.txt', text(200))
    await site.push('side')
    await site.project.git('checkout', '--quiet', 'main')
    await site.project.git('checkout', '--quiet', 'side', '--', 'side.txt')
    await site.project.git('commit', '--quiet', '-m', 'Take a file')
    await site.push('main')
    await site.copy.git(
      'config',
      'remote.origin.fetch',
      '+refs/heads/main:refs/remotes/origin/main',
    )
    await fetchInto(site)
  },
)

test('an object that comes back in a later push is not sent twice', options, async () => {
  await using site = await createSite()
  const [first, second] = [text(50), text(50)]
  for (const content of [first, second, first]) {
    await site.project.commit('d.txt', content)
    await site.push('main')
  }
  await fetchInto(site)
})

test('a tag of a commit below the new tip is fetched, too', options, async () => {
  await using site = await createSite()
  await site.project.commit('d.txt')
  await site.project.git('tag', '--annotate', '--message', 'One', 'v1')
  await site.project.commit('e.txt')
  await site.push('main')
  await site.push('v1')
  await fetchInto(site)
  assert.equal(await site.copy.git('rev-parse', 'v1'), await site.project.git('rev-parse', 'v1'))
})

test('a request that is not done is answered with what is common', options, async () => {
  await using site = await createSite()
  const old = await site.project.git('rev-parse', 'main')
  await change(site, 'd.txt')
  const wanted = await site.project.git('rev-parse', 'main')
  const asked = [
    'thin-pack',
    'ofs-delta',
    `want ${wanted}`,
    `have ${'1'.repeat(idDigits)}`,
    `have ${old}`,
  ]
  const open = parseAnswer((await site.fetch(fetchBody(...asked))).bytes)
  assert.deepEqual(open.lines, [
    'acknowledgments\n',
    `ACK ${old}\n`,
    'ready\n',
    'delimiter',
    'packfile\n',
    'flush',
  ])
  const done = parseAnswer((await site.fetch(fetchBody(...asked, 'done'))).bytes)
  assert.deepEqual(done.lines, ['packfile\n', 'flush'])
  assert.deepEqual(done.pack, open.pack)
  assert.equal((await site.sources()).packs, 2)
  for (const other of ['deepen 1', 'filter blob:none', `want ${old}`, 'wait-for-done'])
    await site.fetch(fetchBody(...asked, other, 'done'))
  await site.fetch(fetchBody(...asked.slice(1)))
  assert.equal((await site.sources()).packs, 2)
})

test('a large push is packed by git', options, async () => {
  await using site = await createSite()
  await site.project.commit('large.bin', randomBytes(500_000))
  await site.push('main')
  assert.equal(await fetchInto(site), 0)
})

test(`fetches beside random changes are whole (SVC_CRASH_SEED=${seed})`, {
  ...exhaustive,
  ...options,
}, async () => {
  await using site = await createSite()
  const random = createRandom(seed)
  const names = ['a.txt', 'b.txt', 'src/c.txt', 'src/d.txt', 'e.txt']
  const contents = Array.from({ length: 4 }, () => text(100))
  const { project } = site
  for (let round = 0; round < toRounds(12); round++) {
    for (let commits = 1 + random.below(3); commits > 0; commits--) {
      const name = names[random.below(names.length)] ?? ''
      await project.commit(name, `${contents[random.below(4)]}${random.below(3)}`).catch(() => {})
      if (random.chance(0.2)) {
        await project.git('mv', '-f', name, `src/moved-${random.below(2)}.txt`).catch(() => {})
        await project.git('commit', '--quiet', '--allow-empty', '-m', 'Move')
      }
    }
    if (random.chance(0.2))
      await project.git('commit', '--quiet', '--amend', '--allow-empty', '-m', 'Amend')
    await site.push('--force', 'main')
    if (random.chance(0.7)) await fetchInto(site)
  }
  await fetchInto(site)
  assert.ok(((await site.sources()).packs ?? 0) > 0)
})
