import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { temporaryFolder } from '../../../test/support/git.ts'
import { gitLimits } from '../../../test/support/git-limits.ts'
import { createRandom } from '../../../test/support/random.ts'
import { gitCommands } from '../process/commands.ts'
import { createGit } from '../process/git-process.ts'
import { findForced } from './forced-updates.ts'
import { zeroId } from './ref-name.ts'

const seed = Number(process.env.SVC_TEST_SEED ?? Date.now() % 1_000_000)
const commitCount = 60
const missing = '1'.repeat(40)

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let git: ReturnType<typeof createGit>
/** Commits with their ancestors, themselves included, by their places. */
let commits: { id: string; ancestors: Set<number> }[]

before(async () => {
  folder = await temporaryFolder()
  git = createGit({ owner: folder.path, path: process.env.PATH ?? '', settings: gitLimits })
  await git.run(gitCommands.init(folder.path))
  commits = await makeHistory()
})

after(() => folder[Symbol.asyncDispose]())

const run = async (args: string[], input = '') =>
  (await git.run([`--git-dir=${folder.path}`, ...args], { input })).trim()

// Commits with up to two parents, and clocks that go wrong: git walks by their dates.
async function makeHistory() {
  const random = createRandom(seed)
  const made: typeof commits = []
  const tree = await run(['mktree'])
  for (let place = 0; place < commitCount; place++) {
    const parents = [...new Set([random.below(place + 1), random.below(place + 1)])].filter(
      (parent) => parent < place && random.chance(0.9),
    )
    const lines = [
      `tree ${tree}`,
      ...parents.map((parent) => `parent ${made[parent]?.id}`),
      `author Ada <ada@example.com> ${1_700_000_000 + random.below(1000)} +0000`,
      `committer Ada <ada@example.com> ${1_700_000_000 + random.below(1000)} +0000`,
    ]
    const text = `${lines.join('\n')}\n\n${place}\n`
    const id = await run(['hash-object', '-t', 'commit', '-w', '--stdin'], text)
    const older = parents.map((parent) => made[parent]?.ancestors ?? new Set<number>())
    const ancestors = older.reduce((all, some) => all.union(some), new Set([place]))
    made.push({ id, ancestors })
  }
  return made
}

const update = (before: string, after: string) => ({ ref: 'refs/heads/x', before, after })

test(`many updates are compared like each alone (SVC_TEST_SEED=${seed})`, async () => {
  const pairs = commits.flatMap((one, place) =>
    commits.map((other) => ({
      ...update(one.id, other.id),
      forced: !other.ancestors.has(place),
    })),
  )
  const updates = pairs.map(({ forced: _, ...rest }) => rest)
  assert.deepEqual(await findForced(git, folder.path, updates), pairs)
  for (const pair of pairs.slice(0, 40)) {
    const { forced: _, ...alone } = pair
    assert.deepEqual(await findForced(git, folder.path, [alone]), [pair])
  }
})

test('tags are peeled, a replaced tag is forced, and so are updates that cannot be compared', async () => {
  const [first, last] = [commits.at(0)?.id ?? '', await childOf(commits.at(0)?.id ?? '')]
  const tag = (id: string, name: string) =>
    run(['mktag'], `object ${id}\ntype commit\ntag ${name}\ntagger A <a@b> 0 +0000\n\nx\n`)
  const [oldTag, newTag] = [await tag(first, 'a'), await tag(last, 'b')]
  const blob = await run(['hash-object', '-w', '--stdin'], 'text')
  const cases: [string, string, boolean][] = [
    [oldTag, newTag, true],
    [newTag, oldTag, true],
    [oldTag, first, true],
    [oldTag, last, true],
    [first, newTag, false],
    [blob, last, true],
    [first, blob, true],
    [missing, last, true],
    [zeroId, last, false],
    [last, zeroId, false],
  ]
  const ref = 'refs/tags/x'
  const expected = cases.map(([before, after, forced]) => ({ ref, before, after, forced }))
  const updates = expected.map(({ forced: _, ...rest }) => rest)
  assert.deepEqual(await findForced(git, folder.path, updates), expected)
  for (const [index, alone] of updates.entries())
    assert.deepEqual(await findForced(git, folder.path, [alone]), [expected[index]])
})

test('updates in a shallow history are compared, too', async () => {
  const tree = await run(['mktree'])
  const text = (parent: string) =>
    `tree ${tree}\nparent ${parent}\nauthor A <a@b> 0 +0000\ncommitter A <a@b> 0 +0000\n\nx\n`
  const broken = await run(
    ['hash-object', '-t', 'commit', '-w', '--literally', '--stdin'],
    text(missing),
  )
  const updates = commits.slice(0, 6).map(({ id }) => update(id, broken))
  const found = await findForced(git, folder.path, updates)
  assert.ok(found.every(({ forced }) => forced))
})

async function childOf(parent: string): Promise<string> {
  const tree = await run(['mktree'])
  const who = 'A <a@b> 1700000000 +0000'
  const text = `tree ${tree}\nparent ${parent}\nauthor ${who}\ncommitter ${who}\n\nx\n`
  return run(['hash-object', '-t', 'commit', '-w', '--stdin'], text)
}
