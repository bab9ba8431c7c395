// Tags: exhaustive
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { type Cut, startDetour } from '../support/detour.ts'
import { createProject, type Project } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { openPushRecords } from '../support/push-records.ts'
import { createRandom, type Random } from '../support/random.ts'
import { toRounds } from '../support/rounds.ts'
import { type SshSite, startSshSite } from '../support/ssh-site.ts'

const seed = Number(process.env.SVC_TEST_SEED ?? 20_261_121)
const cuts = toRounds(8)
const atOnce = 8
const skip = without('openssh')
// The identification, the exchange of keys, authentication and the first data of git take about this number of bytes.
const preludeBytes = 6000

let site: SshSite

before(async () => {
  if (!skip) site = await startSshSite()
})

after(() => site?.[Symbol.asyncDispose]())

test(`a client that disconnects at any byte of a clone leaves nothing behind (seed ${seed})`, {
  skip,
}, async () => {
  await using project = await createProjectOf(200_000)
  await site.git(project.path, ['push', '--quiet', site.remote(), 'HEAD:main'])
  const clone = (port: number) =>
    site.git('/', ['clone', '--quiet', '--bare', site.remote(port), site.newFolder()])
  const fates = await cutOften(site, clone)
  await site.untilNothingIsLeft()
  assert.ok(fates.includes('broken'))
  await clone(site.service.sshPort)
  assertNoFault(site)
})

test(`a client that disconnects at any byte of a push has pushed all or nothing (seed ${seed})`, {
  skip,
}, async () => {
  await site.renew()
  await using project = await createProjectOf(200_000)
  const head = await project.git('rev-parse', 'HEAD')
  let pushes = 0
  const push = async (port: number) => {
    const name = `${pushes++}`
    const specs = [`HEAD:refs/heads/${name}/one`, `HEAD:refs/heads/${name}/two`]
    await site.git(project.path, ['push', '--quiet', site.remote(port), ...specs])
    return name
  }
  const fates = await cutOften(site, push)
  await site.untilNothingIsLeft()

  assert.ok(fates.includes('broken'))
  const refs = (await site.refs()).map((line) => line.split('\t'))
  const recorded = await eventsOf(site)
  for (let name = 0; name < pushes; name++) {
    const mine = refs.filter(([, ref]) => ref?.startsWith(`refs/heads/${name}/`))
    assert.ok([0, 2].includes(mine.length), `${name} was pushed in part: ${mine}`)
    if (fates[name] === 'whole') assert.equal(mine.length, 2, `${name} was acknowledged`)
  }
  for (const [id] of refs) assert.equal(id, head)
  assert.deepEqual(recorded.sort(), refs.map(([, ref]) => ref).sort())
  await push(site.service.sshPort)
  assertNoFault(site)
})

test('an authorized push is finalized, with its event, after its client disconnected', {
  skip,
}, async () => {
  await site.renew()
  await using project = await createProjectOf(1000)
  using records = openPushRecords(site.service.dataDir)
  let number = 0
  await until('a client vanishes between the judgement and the answer', async () => {
    const ref = `refs/heads/${number++}`
    using detour = await startDetour(site.service.sshPort)
    const push = site.git(project.path, ['push', site.remote(detour.port), `HEAD:${ref}`])
    const end = push.then(
      () => 'done',
      () => 'broken',
    )
    let isAllowed = false
    await Promise.race([
      end,
      until('the push is allowed', () => {
        isAllowed = records.unfinished().length > 0
        return isAllowed
      }),
    ])
    detour.cut()
    if (!isAllowed || (await end) === 'done') return false
    await until('the push is finished', () => records.unfinished().length === 0)
    assert.ok(
      (await site.refs()).some((line) => line.endsWith(ref)),
      `${ref} is not there`,
    )
    assert.ok((await eventsOf(site)).includes(ref), `${ref} has no event`)
    return true
  })
  await site.untilNothingIsLeft()
})

type Fate = 'whole' | 'broken'

/** Has clients do something over connections that are cut, each elsewhere; what they thought of it, in order. */
async function cutOften(site: SshSite, act: (port: number) => Promise<unknown>): Promise<Fate[]> {
  const random = createRandom(seed)
  using whole = await startDetour(site.service.sshPort)
  await act(whole.port)
  const fates: Fate[] = ['whole']
  for (let cut = 0; cut < cuts; cut += atOnce) {
    const some = Array.from({ length: atOnce }, async (): Promise<Fate> => {
      using detour = await startDetour(site.service.sshPort, chooseCut(random, whole.lengths))
      const how = act(detour.port)
      return how.then(
        () => 'whole',
        () => 'broken',
      )
    })
    fates.push(...(await Promise.all(some)))
  }
  return fates
}

function chooseCut(random: Random, lengths: Record<Cut['side'], number>): Cut {
  const side = random.pick(['client', 'server'] as const)
  const places = random.chance(0.5) ? Math.min(preludeBytes, lengths[side]) : lengths[side]
  return { side, after: 1 + random.below(places), how: random.pick(['reset', 'end'] as const) }
}

async function createProjectOf(bytes: number): Promise<Project> {
  const project = await createProject()
  await project.commit('large.txt', randomBytes(bytes).toString('base64'))
  return project
}

/** The refs of the repository with events. */
async function eventsOf({ service }: SshSite): Promise<string[]> {
  const { id } = (await service.admin.get('/repos/site')).body
  using records = openPushRecords(service.dataDir)
  const { pushes } = records.eventsAfter(0)
  return pushes.filter(({ repositoryId }) => repositoryId === id).map(({ ref }) => ref)
}

function assertNoFault({ service }: SshSite): void {
  assert.deepEqual(service.log().match(/^.*"level":"(error|fatal)".*$/gm), null)
}
