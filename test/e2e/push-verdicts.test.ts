// Tags: exhaustive

import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { createProject, git, spawnGit, temporaryFolder } from '../support/git.ts'
import { formatCapability, gitZeros, idDigits, objectFormat } from '../support/object-format.ts'
import { openObjectStore, withoutObjectStore } from '../support/object-store.ts'
import { without } from '../support/programs.ts'
import { createRandom, type Random } from '../support/random.ts'
import { gitHeaders } from '../support/raw-git.ts'
import { toRounds } from '../support/rounds.ts'
import { type Service, startService } from '../support/service.ts'

const seed = Number(process.env.SVC_CRASH_SEED ?? Date.now() % 1_000_000)
const pushes = toRounds(40)
const zeroId = gitZeros
// Before, git refuses to delete refs such as `refs/stash`.
const [, major, minor] = /(\d+)\.(\d+)/.exec((await git('/', ['version'])).stdout) ?? []
const deletesOneLevel = Number(major) > 2 || Number(minor) > 40
const missingId = 'f'.repeat(idDigits)

type Command = { before: string; after: string; ref: string }
type Push = {
  commands: Command[]
  isAtomic: boolean
  hasEmptyPack?: boolean
  /** Whether the report comes in bands, as git asks for; svc then serves small pushes of one ref without receive-pack. */
  isBanded?: boolean
}
/** Takes a push and returns the lines of git's report. */
type Target = (push: Push) => Promise<string[]>

const names = [
  'refs/heads/a',
  'refs/heads/a/b',
  'refs/heads/a/b/c',
  'refs/heads/a-b',
  'refs/heads/a.b',
  'refs/heads/z',
  'refs/heads/é',
  'refs/tags/t',
  'refs/tags/t/u',
  'refs/notes/n',
  'refs/other/deep/er',
  'refs/stash',
  'refs/tags',
] as const

// No server accepts them, each for its own reason.
const oddNames = [
  'refs/heads/.a',
  'refs/heads/a..b',
  'refs/heads/a.lock',
  'refs/heads/a b',
  'refs/heads/a~1',
  'refs/heads/a/',
  'refs/heads//a',
  'refs/heads/a@{1}',
  'refs/heads',
  'heads/a',
] as const

describe(`odd pushes get the verdict of git's own receive-pack (SVC_CRASH_SEED=${seed})`, () => {
  const resources = new AsyncDisposableStack()
  let objects: Awaited<ReturnType<typeof createObjects>>
  let pack: Buffer
  let bare: string

  before(async () => {
    const project = resources.use(await createProject())
    objects = await createObjects(project)
    pack = await packOf(project.path, Object.values(objects))
    bare = join(resources.use(await temporaryFolder()).path, 'stock.git')
  })

  after(() => resources.disposeAsync())

  async function compare(service: Service, name: string): Promise<void> {
    await git('/', ['init', '--quiet', '--bare', '--initial-branch=trunk', `${bare}-${name}`])
    await service.admin.post('/repos', { name, defaultBranch: 'trunk' })
    const targets = [stockTarget(`${bare}-${name}`, pack), serviceTarget(service, name, pack)]
    const random = createRandom(seed)
    const ids = [...Object.values(objects), missingId]
    const refs = new Map<string, string>()
    const counts = { ok: 0, ng: 0 }
    for (let number = 0; number < pushes; number++) {
      const begun = [firstPush(objects.first), emptyPush(objects.first)]
      const push = begun[number] ?? randomPush(random, refs, ids)
      const [expected, actual] = await Promise.all(targets.map((send) => send(push)))
      assert.deepEqual(actual, expected, JSON.stringify(push))
      for (const line of expected ?? []) if (/^(ok|ng) /.test(line)) counts[toKind(line)]++
      const lists = await Promise.all([
        git('/', ['ls-remote', `${bare}-${name}`]),
        number % 10 === 9 && git('/', ['ls-remote', service.admin.remote(name)]),
      ])
      const [stock, served] = lists
      if (served) assert.equal(served.stdout, stock.stdout)
      refs.clear()
      for (const line of stock.stdout.split('\n')) {
        const [id = '', ref = ''] = line.split('\t')
        if (ref.startsWith('refs/') && !ref.endsWith('^{}')) refs.set(ref, id)
      }
    }
    // The client checks that it gets all that the refs lead to.
    const copy = `${bare}-${name}-copy`
    await git('/', ['clone', '--quiet', '--mirror', service.admin.remote(name), copy])
    await git(copy, ['fsck', '--connectivity-only'])
    assert.ok(counts.ok > pushes / 4 && counts.ng > pushes / 4, JSON.stringify(counts))
  }

  test('with repositories in directories', async () => {
    await using service = await startService()
    await compare(service, 'local')
  })

  test('with repositories in a shared store', {
    skip: without('postgres') || withoutObjectStore,
  }, async () => {
    const database = await createPostgresDatabase()
    await using store = await openObjectStore()
    try {
      await using service = await startService({
        env: {
          ...store.env,
          SVC_DATABASE_URL: database.url,
          SVC_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
          SVC_SSH_PORT: 'off',
        },
      })
      await compare(service, 'shared')
    } finally {
      await database.drop()
    }
  })
})

function toKind(line: string): 'ok' | 'ng' {
  return line.startsWith('ok') ? 'ok' : 'ng'
}

async function createObjects(project: Awaited<ReturnType<typeof createProject>>) {
  const first = await project.commit('first.txt')
  const second = await project.commit('second.txt')
  await project.git('checkout', '--quiet', '--orphan', 'another')
  const another = await project.commit('another.txt')
  await project.git('tag', '-a', '-m', 'tag', 'annotated', first)
  const tag = await project.git('rev-parse', 'annotated')
  const tree = await project.git('rev-parse', `${first}^{tree}`)
  await writeFile(join(project.path, 'blob'), 'blob')
  const blob = await project.git('hash-object', '-w', 'blob')
  return { first, second, another, tag, tree, blob }
}

async function packOf(path: string, ids: string[]): Promise<Buffer> {
  const { stdout } = await git(path, ['rev-list', '--objects', '--no-object-names', ...ids])
  return runGit(path, ['pack-objects', '--stdout', '--quiet'], Buffer.from(`${stdout}\n`))
}

async function runGit(path: string, args: string[], input: Buffer): Promise<Buffer> {
  const child = spawnGit(path, args)
  child.stdin.on('error', () => {})
  child.stdin.end(input)
  const chunks: Buffer[] = []
  for await (const chunk of child.stdout) chunks.push(chunk)
  return Buffer.concat(chunks)
}

// Version 2, no objects, and the checksum: gitformat-pack(5).
const emptyHeader = Buffer.from('PACK\0\0\0\x02\0\0\0\0', 'latin1')
const emptyPack = Buffer.concat([
  emptyHeader,
  createHash(objectFormat).update(emptyHeader).digest(),
])

function firstPush(id: string): Push {
  return {
    isAtomic: false,
    commands: [{ before: zeroId, after: id, ref: 'refs/heads/trunk' }],
  }
}

/** A push without objects of which one update is refused, and one changes nothing. */
function emptyPush(id: string): Push {
  return {
    isAtomic: false,
    hasEmptyPack: true,
    commands: [
      { before: zeroId, after: id, ref: 'refs/heads/trunk' },
      { before: zeroId, after: zeroId, ref: 'refs/tags/gone' },
    ],
  }
}

function randomPush(random: Random, refs: ReadonlyMap<string, string>, ids: string[]): Push {
  const anyId = () => random.pick(ids as [string, ...string[]])
  const isBanded = random.chance(0.6)
  const isAlone = isBanded && random.chance(0.7)
  // svc refuses all commands of a push when the name of one is odd.
  const chosen = random.chance(0.1)
    ? [random.pick(oddNames)]
    : Array.from({ length: isAlone ? 1 : 1 + random.below(4) }, () => random.pick(names))
  // A request that names a ref twice is refused as a whole.
  const commands = [...new Set<string>(chosen)].map((ref) => {
    const present = refs.get(ref) ?? zeroId
    const isDeletable = deletesOneLevel || ref.split('/').length > 2
    return {
      ref,
      before: random.chance(0.8) ? present : random.pick([zeroId, anyId()]),
      after: isDeletable && random.chance(0.3) ? zeroId : anyId(),
    }
  })
  // Git applies the others of an atomic push when the objects of one are missing; a shared store applies none.
  const isComplete = commands.every(({ after }) => after !== missingId)
  const present = new Set(refs.values())
  const isThere = commands.every(({ after }) => after === zeroId || present.has(after))
  return {
    commands,
    isAtomic: isComplete && random.chance(0.3),
    hasEmptyPack: isThere && random.chance(0.5),
    isBanded,
  }
}

function toBody({ commands, isAtomic, hasEmptyPack, isBanded }: Push, objects: Buffer): Buffer {
  const pack = hasEmptyPack ? emptyPack : objects
  const more = `${isAtomic ? ' atomic' : ''}${isBanded ? ' side-band-64k' : ''}`
  const capabilities = `report-status delete-refs${more}${formatCapability}`
  const lines = commands.map(({ before, after, ref }, index) =>
    packet(`${before} ${after} ${ref}${index === 0 ? `\0 ${capabilities}` : ''}`),
  )
  const needsPack = commands.some((command) => command.after !== zeroId)
  return Buffer.concat([...lines, flushPacket, ...(needsPack ? [pack] : [])])
}

function stockTarget(directory: string, pack: Buffer): Target {
  return async (push) => {
    const args = ['-c', 'receive.unpackLimit=1', 'receive-pack', '--stateless-rpc', directory]
    return toLines(await runGit('/', args, toBody(push, pack)))
  }
}

function serviceTarget({ url, adminToken }: Service, name: string, pack: Buffer): Target {
  return async (push) => {
    const body = toBody(push, pack)
    const { authorization = '', 'content-type': type = '' } = gitHeaders(
      'git-receive-pack',
      adminToken,
    )
    const response = await fetch(`${url}/repos/${name}.git/git-receive-pack`, {
      method: 'POST',
      headers: { authorization: String(authorization), 'content-type': String(type) },
      body,
    })
    const report = Buffer.from(await response.arrayBuffer())
    // An invalid name is already refused before git sees it.
    const isRefused = /is not a ref name/.test(report.toString())
    if (isRefused) return ['unpack ok', ...push.commands.map(({ ref }) => `ng ${ref}`)]
    return toLines(report)
  }
}

function packetsIn(bytes: Buffer): Buffer[] {
  const packets: Buffer[] = []
  for (let at = 0; at + 4 <= bytes.length; ) {
    const length = Number.parseInt(bytes.toString('latin1', at, at + 4), 16)
    if (length >= 4) packets.push(bytes.subarray(at + 4, at + length))
    at += Math.max(length || 0, 4)
  }
  return packets
}

/** The verdicts of a report, without reasons: `ok REF` and `ng REF`, and whether the pack was unpacked. */
function toLines(report: Buffer): string[] {
  const packets = packetsIn(report)
  const isBanded = packets.some((one) => one[0] === 1 || one[0] === 2)
  const banded = packets.filter((one) => one[0] === 1).map((one) => one.subarray(1))
  const lines = (isBanded ? packetsIn(Buffer.concat(banded)) : packets).map((one) =>
    one.toString().trim(),
  )
  return lines.map((line) => line.replace(/^(ng refs\/heads\/a b|ng \S+) .*/s, '$1'))
}
