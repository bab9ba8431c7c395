import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { faultSteps } from '#base/fault-points.ts'
import { newTokenString } from '#base/token-string.ts'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, git, type Project, temporaryFolder } from '../support/git.ts'
import { openPushRecords } from '../support/push-records.ts'
import { sampleOf } from '../support/rounds.ts'
import { type Client, type Service, startService } from '../support/service.ts'
import { type SshSite, startSshSite } from '../support/ssh-site.ts'
import { openTables } from '../support/tables.ts'

let site: SshSite
let project: Project
let owner: Client
let tip: string

before(async () => {
  site = await startSshSite()
  project = await createProject()
  tip = await project.git('rev-parse', 'HEAD')
  owner = await site.service.client({ username: 'ada', permissions: ['repo:read', 'repo:write'] })
})

after(async () => {
  await site[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

async function pushNew(name: string, refs: string[], more: object = {}): Promise<void> {
  assert.equal((await owner.post('/repos', { name, ...more })).status, 201)
  await project.git('push', '--quiet', owner.remote(name), ...refs.map((ref) => `HEAD:${ref}`))
}

async function defaultBranch(name: string): Promise<string> {
  return (await owner.get(`/repos/${name}`)).body.defaultBranch
}

async function changes(name: string) {
  const { body } = await owner.get(`/events?repository=${name}&kind=repository.default_branch`)
  return body.map((event: { data: object }) => event.data)
}

test(
  'a repository whose first branch is trunk is cloned over both transports, in every protocol',
  exhaustive,
  async () => {
    await pushNew('trunk-first', ['refs/heads/trunk'])
    await site.service.admin.post('/repos/trunk-first/collaborators', { username: 'admin' })
    assert.equal(await defaultBranch('trunk-first'), 'trunk')
    const remotes = [
      owner.remote('trunk-first'),
      site.remote().replace('/site.git', '/trunk-first.git'),
    ]
    for (const remote of remotes) {
      for (const protocol of [0, 1, 2]) {
        for (const depth of [[], ['--depth', '1']]) {
          const folder = site.newFolder()
          const version = ['-c', `protocol.version=${protocol}`]
          await site.git('/', [...version, 'clone', '--quiet', ...depth, remote, folder])
          const { stdout } = await git(folder, ['rev-parse', '--abbrev-ref', 'HEAD', 'HEAD'])
          assert.equal(stdout, 'trunk\ntrunk')
          assert.equal((await git(folder, ['rev-parse', 'HEAD'])).stdout, tip)
        }
      }
    }
    assert.deepEqual(await changes('trunk-first'), [{ branch: 'trunk', formerBranch: 'main' }])
  },
)

test('of several first branches, the usual names take precedence', async () => {
  const several: [pushed: string[], expected: string, more?: object][] = [
    [['b', 'a'], 'a'],
    [['a', 'trunk'], 'trunk'],
    [['trunk', 'master'], 'master'],
    [['master', 'main'], 'main'],
    [['a', 'develop'], 'develop', { defaultBranch: 'develop' }],
    [['x'], 'x', { defaultBranch: 'develop' }],
  ]
  for (const [number, [pushed, expected, more]] of several.entries()) {
    const name = `several-${number}`
    await pushNew(
      name,
      pushed.map((branch) => `refs/heads/${branch}`),
      more,
    )
    assert.equal(await defaultBranch(name), expected)
  }
})

test('tags and later pushes of unusual names do not change the default branch', async () => {
  await pushNew('tags', ['refs/tags/v1'])
  assert.equal(await defaultBranch('tags'), 'main')
  await project.git('push', '--quiet', owner.remote('tags'), 'HEAD:refs/heads/next')
  assert.equal(await defaultBranch('tags'), 'next')
  await project.git('push', '--quiet', owner.remote('tags'), 'HEAD:refs/heads/a')
  assert.equal(await defaultBranch('tags'), 'next')
})

test('the owner and admins change the default branch to one that exists', async () => {
  await pushNew('changed', ['refs/heads/main', 'refs/heads/next'])
  const patch = (client: Client, body: object) => client.patch('/repos/changed', body)
  await owner.patch('/repos/changed', { name: 'changed' })
  await site.service.admin.post('/repos/changed/collaborators', { username: 'grace' })
  const grace = await site.service.client({
    username: 'grace',
    permissions: ['repo:read', 'repo:write'],
  })
  const refused = await patch(grace, { defaultBranch: 'next' })
  assert.deepEqual([refused.status, refused.body.code], [403, 'owner_required'])
  const absent = await patch(owner, { defaultBranch: 'nowhere' })
  assert.deepEqual([absent.status, absent.body.code], [422, 'ref_not_found'])
  for (const odd of ['', 'a b', '-x', 'refs/tags/v1', 'x*', 'HEAD', '../x', 'a..b']) {
    assert.equal((await patch(owner, { defaultBranch: odd })).status, 400, odd)
  }
  assert.equal((await patch(owner, {})).status, 400)
  assert.equal(await defaultBranch('changed'), 'main')

  const changed = await patch(owner, { defaultBranch: 'refs/heads/next' })
  assert.deepEqual([changed.status, changed.body.defaultBranch], [200, 'next'])
  const { stdout } = await git('/', ['ls-remote', '--symref', owner.remote('changed'), 'HEAD'])
  assert.match(stdout, /^ref: refs\/heads\/next\tHEAD$/m)
  await patch(owner, { defaultBranch: 'next' })
  assert.deepEqual(await changes('changed'), [{ branch: 'next', formerBranch: 'main' }])
  // It is no push.
  assert.equal((await owner.get('/repos/changed/pushes')).body.length, 1)
  using records = openPushRecords(site.service.dataDir)
  assert.deepEqual(records.unfinished(), [])

  const both = await patch(site.service.admin, { name: 'both', defaultBranch: 'main' })
  assert.deepEqual([both.body.name, both.body.defaultBranch], ['both', 'main'])
  const taken = await owner.patch('/repos/both', { name: 'site', defaultBranch: 'next' })
  assert.equal(taken.status, 409)
  assert.equal(await defaultBranch('both'), 'main')
})

test('an empty repository accepts any default branch, and an empty clone starts with it', async () => {
  const { body } = await owner.post('/repos', { name: 'empty', defaultBranch: 'develop' })
  assert.equal(body.defaultBranch, 'develop')
  assert.equal((await owner.post('/repos', { name: 'odd', defaultBranch: 'a b' })).status, 400)
  await owner.patch('/repos/empty', { defaultBranch: 'release/1.0' })
  const folder = site.newFolder()
  await git('/', ['clone', '--quiet', owner.remote('empty'), folder])
  assert.equal((await git(folder, ['symbolic-ref', 'HEAD'])).stdout, 'refs/heads/release/1.0')
})

test("deleting the default branch is rejected with advice, and without git's own advice", async () => {
  await pushNew('kept', ['refs/heads/trunk', 'refs/heads/next'])
  await owner.patch('/repos/kept', { defaultBranch: 'trunk' })
  const deletion = project.git('push', owner.remote('kept'), ':trunk')
  await assert.rejects(deletion, ({ stderr }) => {
    assert.match(stderr, /remote: "trunk" is the default branch/)
    assert.match(stderr, /PATCH \/repos\/kept with \{"defaultBranch"/)
    assert.doesNotMatch(stderr, /receive\.deny|refusing to delete/)
    return true
  })
  await owner.patch('/repos/kept', { defaultBranch: 'next' })
  await project.git('push', '--quiet', owner.remote('kept'), ':trunk')
})

test('an undo of the first push restores the previous default branch', async () => {
  await pushNew('undone', ['refs/heads/x'], { defaultBranch: 'develop' })
  assert.equal(await defaultBranch('undone'), 'x')
  const { body: pushes } = await owner.get('/repos/undone/pushes')
  assert.equal((await owner.post(`/repos/undone/pushes/${pushes[0].id}/undo`)).status, 200)
  assert.equal(await defaultBranch('undone'), 'develop')
  assert.deepEqual(await changes('undone'), [
    { branch: 'x', formerBranch: 'develop' },
    { branch: 'develop', formerBranch: 'x' },
  ])
})

test('an undo that deletes the default branch moves HEAD to another one', async () => {
  await pushNew('other', ['refs/heads/x'])
  await project.git('push', '--quiet', owner.remote('other'), 'HEAD:refs/heads/y')
  const { body: pushes } = await owner.get('/repos/other/pushes')
  assert.equal((await owner.post(`/repos/other/pushes/${pushes[1].id}/undo`)).status, 200)
  assert.equal(await defaultBranch('other'), 'y')
})

test('an import whose HEAD leads nowhere gets a default branch that can be cloned', async () => {
  await using source = await createProject()
  await source.git('branch', '--move', 'main', 'trunk')
  await source.git('branch', 'side')
  await source.git('symbolic-ref', 'HEAD', 'refs/heads/gone')
  const answer = await site.service.admin.post('/repos/import', {
    source: source.path,
    name: 'imported',
  })
  assert.equal(answer.status, 201, answer.text)
  assert.equal(answer.body.defaultBranch, 'trunk')
})

test('schedules come from the new default branch', async () => {
  await using flows = await createProject()
  const workflow =
    'on:\n  schedule:\n    - cron: "0 0 1 1 *"\njobs:\n  one:\n    runs-on: x\n    steps: [{ run: true }]\n'
  await owner.post('/repos', { name: 'flows' })
  const remote = owner.remote('flows')
  await flows.git('push', '--quiet', remote, 'HEAD:main')
  await mkdir(join(flows.path, '.svc/workflows'), { recursive: true })
  await flows.commit('.svc/workflows/nightly.yml', workflow)
  await flows.git('push', '--quiet', remote, 'HEAD:nightly')
  using tables = openTables(site.service.dataDir)
  const count = () => tables.rows('schedules').length
  assert.equal(count(), 0)
  await owner.patch('/repos/flows', { defaultBranch: 'nightly' })
  await until('the schedule is there', () => count() === 1)
  await owner.patch('/repos/flows', { defaultBranch: 'main' })
  await until('the schedule is gone', () => count() === 0)
})

const steps = faultSteps.filter((step) => step.startsWith('default-branch.'))
const push = ({ admin }: Service) =>
  project.git('push', '--quiet', admin.remote('site'), 'HEAD:trunk')

/** What the server is killed at; a clean start follows, and then HEAD and the event agree. */
const scenarios: Record<string, (service: Service) => Promise<unknown>> = {
  'the first push': push,
  'a request': ({ admin }) => admin.patch('/repos/site', { defaultBranch: 'trunk' }),
}

describe('a server that is killed', { ...exhaustive, concurrency: 2 }, () => {
  for (const step of sampleOf([...steps, 'push.moved', 'push.published'], 2)) {
    for (const [name, act] of Object.entries(scenarios)) {
      if (step.startsWith('push.') && act !== push) continue
      test(`at ${step} of ${name} has changed the default branch once after its restart`, () =>
        crash(step, act))
    }
  }
})

async function crash(step: string, act: (service: Service) => Promise<unknown>): Promise<void> {
  await using folder = await temporaryFolder()
  const place = { dataDir: join(folder.path, 'data'), env: { SVC_ADMIN_TOKEN: newTokenString() } }
  {
    await using service = await startService(place)
    await service.admin.post('/repos', { name: 'site' })
    assert.equal(await service.end('SIGTERM'), 0)
  }
  {
    await using service = await startService({
      ...place,
      env: { ...place.env, SVC_FAULT_POINT: step },
    })
    await act(service).catch(() => {})
    await until('it was killed', () => service.hasEnded())
  }
  await using service = await startService(place)
  const { body } = await service.admin.get('/repos/site')
  assert.equal(body.defaultBranch, 'trunk')
  const events = await service.admin.get('/events?kind=repository.default_branch')
  const published = events.body.map(({ data }: { data: object }) => data)
  assert.deepEqual(published, [{ branch: 'trunk', formerBranch: 'main' }])
  using records = openPushRecords(place.dataDir)
  assert.deepEqual(records.unfinished(), [])
}
