// Tags: exhaustive
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { fuzzing } from '../../../test/support/fuzz.ts'
import { git as realGit, temporaryFolder } from '../../../test/support/git.ts'
import { gitLimits } from '../../../test/support/git-limits.ts'
import { toRounds } from '../../../test/support/rounds.ts'
import { gitCommands } from '../process/commands.ts'
import { createGit } from '../process/git-process.ts'
import {
  capabilitiesIn,
  fetchAdvertisement,
  fetchCapabilitiesIn,
  pushAdvertisement,
} from '../protocol/advertisement.ts'
import { answerLsRefs } from '../protocol/ls-refs.ts'
import { flushPacket, packet } from '../protocol/pkt-line.ts'
import { createRefCache } from './ref-cache.ts'

const git = createGit({
  owner: '/nonexistent',
  path: process.env.PATH ?? '',
  settings: gitLimits,
})
const delimiter = Buffer.from('0001')

// Neighbours of `a` that sort before and after what is in its folder, and names in no encoding.
const parts = ['a', 'a-', 'a.b', 'a0', 'b', 'é', '\u{1f642}', '%', '@', 'heads', 'x'.repeat(120)]
const folders = [
  'refs/heads',
  'refs/heads/a',
  'refs/tags',
  'refs/notes',
  'refs/svc',
  'refs/svc-a',
  'refs',
]
const name = fc
  .tuple(
    fc.constantFrom(...folders),
    fc.array(fc.constantFrom(...parts), { minLength: 1, maxLength: 2 }),
  )
  .map(([folder, rest]) => `${folder}/${rest.join('/')}`)

type Change =
  | { kind: 'set'; name: string; object: number }
  | { kind: 'delete'; name: string }
  | { kind: 'link'; name: string; target: string }
  | { kind: 'detach'; object: number }
  | { kind: 'pack' }

const change: fc.Arbitrary<Change> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('set' as const), name, object: fc.nat(7) }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('delete' as const), name }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('link' as const),
      name: fc.oneof(name, fc.constant('HEAD')),
      target: name,
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('detach' as const), object: fc.nat(3) }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'pack' as const }) },
)

const prefix = fc.oneof(
  fc.constantFrom(
    '',
    'HEAD',
    'HE',
    'refs/',
    'refs/heads/',
    'refs/tags/',
    'refs/heads/*',
    'refs/svc',
    'refs/heads/a',
  ),
  name,
  name.chain((full) => fc.nat(full.length).map((length) => full.slice(0, length))),
)
const listing = fc
  .record({
    peel: fc.boolean(),
    symrefs: fc.boolean(),
    unborn: fc.boolean(),
    prefixes: fc.array(prefix, { maxLength: 4 }),
    end: fc.constantFrom('', '\n'),
  })
  .map(toListing)

type Listing = {
  peel: boolean
  symrefs: boolean
  unborn?: boolean
  prefixes: string[]
  end?: string
}

function toListing({ peel, symrefs, unborn, prefixes, end = '' }: Listing): Buffer {
  const words = [peel && 'peel', symrefs && 'symrefs', unborn && 'unborn']
  const lines = [
    ...words.filter((word) => typeof word === 'string'),
    ...prefixes.map((one) => `ref-prefix ${one}`),
  ]
  return Buffer.concat([
    packet(`command=ls-refs${end}`),
    packet(`agent=git/2.39.5${end}`),
    packet(`object-format=sha1${end}`),
    delimiter,
    ...lines.map((line) => packet(`${line}${end}`)),
    flushPacket,
  ])
}

test('refs are listed as git prints them, byte for byte, after any change', async (t) => {
  const { seed } = fuzzing()
  t.diagnostic(`SVC_FUZZ_SEED=${seed}`)
  let answered = 0
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.tuple(
          fc.array(change, { maxLength: 3 }),
          fc.array(listing, { minLength: 1, maxLength: 2 }),
        ),
        {
          minLength: 1,
          maxLength: 6,
        },
      ),
      async (rounds) => {
        await using site = await newSite()
        for (const [changes, requests] of rounds) {
          for (const one of changes) await site.apply(one)
          for (const request of requests) answered += await site.compareList(request)
          answered += await site.compareOffers()
        }
      },
    ),
    { seed, numRuns: toRounds(10) },
  )
  // Else git may have answered all of it.
  assert.ok(answered > 50, `${answered} were answered from memory`)
})

test('many packed refs with tags are listed as by git', async () => {
  await using site = await newSite()
  await site.packMany(21_000)
  await site.apply({ kind: 'set', name: 'refs/heads/many/10500', object: 1 })
  await site.apply({ kind: 'set', name: 'refs/heads/many/new', object: 2 })
  let answered = await site.compareOffers()
  for (const prefixes of [
    [],
    ['refs/heads/many/105', 'refs/tags/many/1'],
    ['refs/heads/many/10500'],
  ]) {
    for (const peel of [true, false]) {
      answered += await site.compareList(toListing({ peel, symrefs: true, prefixes }))
    }
  }
  assert.equal(answered, 8)
})

test('unsupported or oversized refs are left to git', async () => {
  await using site = await newSite()
  const list = (...lines: string[]) =>
    Buffer.concat([
      packet('command=ls-refs'),
      delimiter,
      ...lines.map((line) => packet(line)),
      flushPacket,
    ])
  assert.equal(await site.compareList(list('peel')), 1)
  for (const request of [
    list('peeled'),
    list('ref-prefix'),
    list('ref-prefix refs/\0'),
    Buffer.concat([list('peel'), Buffer.from('0')]),
    Buffer.concat([packet('command=ls-refs'), packet('server-option=x'), flushPacket]),
    Buffer.concat([packet('command=ls-refs'), packet('object-format=sha512'), flushPacket]),
    Buffer.concat([packet('object-format=sha1'), packet('command=ls-refs'), flushPacket]),
    list(...Array.from({ length: 4097 }, (_, number) => `ref-prefix refs/${number}`)),
    list(...Array<string>(5000).fill('peel')),
  ]) {
    assert.equal(await site.compareList(request), 0, request.toString('latin1', 0, 100))
  }
  const { directory } = site
  const { head } = await site.snapshot(1e8)
  assert.equal(head?.id?.length, 40)
  assert.deepEqual(await site.snapshot(100), {
    head: undefined,
    counts: { hit: 0, read: 1, git: 1, bytes: 1 },
  })
  await site.apply({ kind: 'pack' })
  const path = join(directory, 'packed-refs')
  const packed = await readFile(path, 'utf8')
  for (const content of [
    packed.replace(' fully-peeled', ''),
    packed.replace('refs/heads/main', 'refs/heads/ma in'),
    packed.replace('refs/heads/main', 'refs/heads/.main'),
    packed.replace('refs/heads/main', 'refs/heads/main.lock'),
    packed.replace(/\n$/, ''),
    packed.replace(/\n[0-9a-f]/, '\nA'),
  ]) {
    await writeFile(path, content)
    assert.equal((await site.snapshot(1e8)).head, undefined, content)
  }
  await writeFile(path, packed)
  assert.deepEqual((await site.snapshot(1e8)).head, head)
  await symlink('refs/heads/main', join(directory, 'refs/heads/linked'))
  assert.equal((await site.snapshot(1e8)).head, undefined)
})

async function newSite() {
  const folder = await temporaryFolder()
  const directory = join(folder.path, 'site.git')
  await git.run(gitCommands.init(directory))
  const run = async (...args: string[]) => (await realGit(directory, args)).stdout
  const tree = await run('write-tree')
  const commits = await Promise.all(
    ['one', 'two', 'three', 'four'].map((text) => run('commit-tree', '-m', text, tree)),
  )
  const [first = ''] = commits
  const tagOf = async (tag: string, object: string) => {
    await run('update-ref', 'refs/tags/tmp', object)
    await run('tag', '-f', '-a', '-m', tag, 'tmp', object)
    const id = await run('rev-parse', 'refs/tags/tmp')
    await run('update-ref', '-d', 'refs/tags/tmp')
    return id
  }
  const tag = await tagOf('one', first)
  const objects = [...commits, tag, await tagOf('two', tag), tree, await tagOf('tree', tree)]
  const snapshots = createRefCache({ git, maxBytes: 1e8 })
  // What git can do is asked of a repository with a branch.
  await run('update-ref', 'refs/heads/main', first)
  const offers = {
    fetch: fetchCapabilitiesIn((await git.run(gitCommands.advertiseFetch(directory))).toString()),
    push: capabilitiesIn(await git.run(gitCommands.advertisePush(directory))),
  }

  async function printed(
    command: readonly string[],
    protocol: string,
    input: Buffer,
  ): Promise<Buffer> {
    await using child = await git.start(command, { protocol })
    child.stdin.end(input)
    const chunks: Buffer[] = []
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
    await Promise.all([once(child.stdout, 'end'), child.ended])
    return Buffer.concat(chunks)
  }

  /** Whether git was not needed. */
  function compare(mine: Buffer[] | undefined, its: Buffer): number {
    if (!mine) return 0
    assert.equal(Buffer.concat(mine).toString('latin1'), its.toString('latin1'))
    return 1
  }

  return {
    directory,

    /** Refs that were not read before. */
    async snapshot(maxBytes: number) {
      const fresh = createRefCache({ git, maxBytes })
      const first = await fresh.of(directory)
      const second = maxBytes < 1000 ? await fresh.of(directory) : first
      return { head: second?.head, counts: fresh.count() }
    },

    /** Packs refs without having had each of them in a file. */
    async packMany(count: number): Promise<void> {
      const names = Array.from({ length: count }, (_, number) =>
        number % 3 === 0 ? `refs/tags/many/${number}` : `refs/heads/many/${number}`,
      )
      const lines = names
        .sort()
        .map((one) =>
          one.startsWith('refs/tags/') ? `${tag} ${one}\n^${first}\n` : `${first} ${one}\n`,
        )
      const header = '# pack-refs with: peeled fully-peeled sorted \n'
      await writeFile(join(directory, 'packed-refs'), `${header}${lines.join('')}`)
    },

    /** Changes a ref with the real git, which refuses what cannot be. */
    async apply(one: Change): Promise<void> {
      const object = 'object' in one ? (objects[one.object] ?? first) : first
      const command = {
        set: () => ['update-ref', '--no-deref', nameIn(one), object],
        delete: () => ['update-ref', '--no-deref', '-d', nameIn(one)],
        link: () => ['symbolic-ref', nameIn(one), 'target' in one ? one.target : ''],
        detach: () => ['update-ref', '--no-deref', 'HEAD', object],
        pack: () => ['pack-refs', '--all'],
      }[one.kind]()
      await run(...command).catch(() => {})
    },

    compareList: async (request: Buffer) =>
      compare(
        await answerLsRefs(snapshots, directory, request),
        await printed(gitCommands.fetch(directory), 'version=2', request),
      ),

    async compareOffers(): Promise<number> {
      assert.ok(offers.fetch)
      const snapshot = await snapshots.of(directory)
      const peeled = snapshot && (await snapshots.peeled(directory, snapshot))
      const mine = [
        peeled && (await fetchAdvertisement(snapshot, peeled, offers.fetch)),
        snapshot && (await pushAdvertisement(snapshot, offers.push, 'sha1')),
      ]
      const its = [
        await printed(gitCommands.advertiseFetch(directory), '', Buffer.alloc(0)),
        await printed(gitCommands.advertisePush(directory), '', Buffer.alloc(0)),
      ]
      return its.reduce((sum, one, index) => sum + compare(mine[index], one), 0)
    },

    [Symbol.asyncDispose]: folder[Symbol.asyncDispose],
  }
}

function nameIn(one: Change): string {
  return 'name' in one ? one.name : ''
}
