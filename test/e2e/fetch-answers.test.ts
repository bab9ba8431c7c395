// Tags: exhaustive, each-store

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { gitCommands } from '#git/process/commands.ts'
import { createGit } from '#git/process/git-process.ts'
import {
  type FetchSite,
  fetchBody,
  parseAnswer,
  saidBy,
  startFetchSite,
} from '../support/fetch-site.ts'
import { git, type Project, spawnGit, temporaryFolder } from '../support/git.ts'
import { gitLimits } from '../support/git-limits.ts'
import { idDigits } from '../support/object-format.ts'
import { createRandom, type Random } from '../support/random.ts'
import { toRounds } from '../support/rounds.ts'

const seed = Number(process.env.SVC_FUZZ_SEED ?? Date.now() % 1_000_000)
const rounds = toRounds(4)

test(`random fetches get the response of git, however often they are made (SVC_FUZZ_SEED=${seed})`, async (t) => {
  await using site = await startFetchSite()
  const random = createRandom(seed)
  const { project } = site
  const ids: [string, ...string[]] = [await project.git('rev-parse', 'HEAD')]
  await site.push('HEAD:main')
  const asked: Buffer[] = []
  let others = 0
  for (let round = 0; round < rounds; round++) {
    if (random.chance(0.5)) await change(site, random, ids, round)
    // No response may be stale, right after a change or later.
    if (random.chance(0.7)) await site.settle()
    asked.push(randomFetch(random, ids))
    const old = Array.from({ length: 2 }, () => asked[random.below(asked.length)])
    for (const body of [...old, ...asked.slice(-3)]) {
      if (!body) continue
      const theirs = await answerOfGit(site.directory, body)
      const ours = await Promise.all([1, 2, 3].map(() => site.fetch(body)))
      for (const { bytes } of ours) {
        if (saidBy(bytes) === saidBy(theirs)) continue
        // Where objects lie decides on the order in which git packs them.
        const what: string = `round ${round}: ${body}`
        assert.deepEqual(parseAnswer(bytes).lines, parseAnswer(theirs).lines, what)
        const [own, other] = [await objectsIn(project, bytes), await objectsIn(project, theirs)]
        assert.deepEqual(own, other, what)
        others += 1
      }
    }
  }
  const { hit = 0, miss = 0, coalesced = 0 } = await site.sources()
  assert.ok(hit + coalesced > miss, 'most were answered without git')
  t.diagnostic(`${miss} misses, ${hit} hits, ${coalesced} coalesced; ${others} in another order`)
})

/** Pushes commits, tags, or what goes away again. */
async function change(site: FetchSite, random: Random, ids: string[], round: number) {
  const { project } = site
  const kind = random.pick([
    'commit',
    'commit',
    'tag',
    'light tag',
    'no tag',
    'pack refs',
    'repack',
  ])
  if (kind === 'commit') {
    if (random.chance(0.3)) await project.git('checkout', '--quiet', random.pick([ids[0] ?? '']))
    ids.push(await project.commit(`file-${round}`, `content ${round}\n`.repeat(random.below(50))))
    // What the server does not have yet, clients may have already.
    if (random.chance(0.5)) await site.push(`HEAD:refs/heads/branch-${round}`)
  }
  if (kind === 'tag') {
    const name = `v${round % 5}`
    await project.git(
      'tag',
      '--force',
      '-m',
      `tag ${round}`,
      name,
      random.pick([ids[0] ?? '', ...ids]),
    )
    await site.push('--force', `refs/tags/${name}`)
  }
  if (kind === 'light tag') {
    await site.push('--force', `${random.pick([ids[0] ?? '', ...ids])}:refs/tags/deep/er/light`)
  }
  if (kind === 'no tag') await site.push('--force', ':refs/tags/v1').catch(() => {})
  if (kind === 'pack refs') await createOwnGit().run(gitCommands.packRefs(site.directory))
  if (kind === 'repack') await createOwnGit().run(gitCommands.repack(site.directory))
}

function randomFetch(random: Random, ids: [string, ...string[]]): Buffer {
  const any = () => (random.chance(0.05) ? 'f'.repeat(idDigits) : random.pick(ids))
  const some = (chance: number, ...lines: string[]) => (random.chance(chance) ? lines : [])
  return fetchBody(
    'no-progress',
    ...some(0.5, 'include-tag'),
    ...some(0.5, 'thin-pack'),
    ...some(0.8, 'ofs-delta'),
    ...some(0.3, `deepen ${1 + random.below(3)}`),
    ...some(0.1, 'deepen-since 1600000000'),
    ...some(
      0.2,
      `filter ${random.pick(['blob:none', 'tree:0', 'blob:limit=20', 'object:type=commit'])}`,
    ),
    ...some(0.1, 'wait-for-done'),
    `want ${any()}`,
    ...some(0.4, `want ${any()}`),
    ...some(0.2, `shallow ${any()}`),
    ...some(0.5, `have ${any()}`, `have ${ids.at(-1)}`),
    ...some(0.8, 'done'),
  )
}

/** What git says that is asked directly. */
async function answerOfGit(directory: string, body: Buffer): Promise<Buffer> {
  await using child = await createOwnGit().start(gitCommands.fetch(directory), {
    protocol: 'version=2',
  })
  child.stdin.end(body)
  const pieces: Buffer[] = []
  child.stdout.on('data', (piece: Buffer) => pieces.push(piece))
  await once(child.stdout, 'end')
  return Buffer.concat(pieces)
}

/** The ids of the objects in the pack of an answer, which may need others of a project. */
async function objectsIn(project: Project, answer: Buffer): Promise<string[]> {
  await using folder = await temporaryFolder()
  const { pack } = parseAnswer(answer)
  if (pack.length === 0) return []
  await git(folder.path, ['init', '--quiet', '--bare'])
  await writeFile(
    join(folder.path, 'objects/info/alternates'),
    `${join(project.path, '.git/objects')}\n`,
  )
  const child = spawnGit(folder.path, [
    'index-pack',
    '--stdin',
    '--fix-thin',
    'objects/pack/got.pack',
  ])
  const ended = once(child, 'close')
  child.stdin.end(pack)
  assert.deepEqual(await ended, [0, null])
  const { stdout } = await git(folder.path, ['verify-pack', '-v', 'objects/pack/got.idx'])
  const objects = [...stdout.matchAll(/^([0-9a-f]{40,64}) \w+ +\d+ \d+ (\d+)/gm)]
  // What a thin pack leaves out has been added at its end.
  const inOrder = objects.sort(([, , one], [, , other]) => Number(one) - Number(other))
  const own = inOrder.slice(0, pack.readUInt32BE(8))
  return own.map(([, id = '']) => id).sort()
}

function createOwnGit() {
  return createGit({ settings: gitLimits, owner: 'test', path: process.env.PATH ?? '' })
}
