// Tags: exhaustive
import assert from 'node:assert/strict'
import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { faultSteps } from '#base/fault-points.ts'
import { newTokenString } from '#base/token-string.ts'
import { refsIn } from '../support/backups.ts'
import { until } from '../support/condition.ts'
import { commitDated, datedCommit } from '../support/dated-commit.ts'
import { createProject, git, type Project, temporaryFolder } from '../support/git.ts'
import { untilTidy } from '../support/leftovers.ts'
import { openPushRecords } from '../support/push-records.ts'
import type { ListedPush } from '../support/pushes.ts'
import { keptFaults, partRefs } from '../support/retained-commits.ts'
import { sampleOf } from '../support/rounds.ts'
import { type Service, startService } from '../support/service.ts'

const ofPushes = faultSteps.filter((step) => step.startsWith('push.'))
const ofUndo = faultSteps.filter((step) => step.startsWith('undo.'))
const main = 'refs/heads/main'
const env = { SVC_ADMIN_TOKEN: newTokenString() }

let project: Project
let first: string
let second: string
let third: string
let prepared: Awaited<ReturnType<typeof temporaryFolder>>

before(async () => {
  project = await createProject()
  first = await project.git('rev-parse', 'main')
  await project.git('commit', '--quiet', '--amend', '-m', 'Another one')
  second = await project.git('rev-parse', 'main')
  third = await datedCommit(project, first)
  prepared = await temporaryFolder()
  await prepare([first])
  await prepare([first, second])
})

after(async () => {
  await prepared[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

/** What the server is killed at, after pushes of some values; and what the journal and the branch are then. */
type Scenario = {
  pushed: string[]
  act: (service: Service) => Promise<unknown>
  transports: string[]
  value: string
}

// Of a push the answer may have been given or not; of an undo it cannot have been.
const pushing = (): Scenario => ({
  pushed: [first],
  act: ({ admin }) => send(admin.remote('site'), second).catch(() => {}),
  transports: ['http', 'http'],
  value: second,
})

const undoing = (): Scenario => ({
  pushed: [first, second],
  async act({ admin }) {
    const { body } = await admin.get('/repos/site/pushes')
    await assert.rejects(admin.post(`/repos/site/pushes/${body[0].id}/undo`))
  },
  transports: ['undo', 'http', 'http'],
  value: first,
})

/** The same through the API: the commit of a request with a date is known before. */
const committing = (): Scenario => ({
  pushed: [first],
  act: ({ admin }) => commitDated(admin, 'site', first).catch(() => {}),
  transports: ['api', 'http'],
  value: third,
})

describe('a server that is killed', { concurrency: 2 }, () => {
  for (const step of sampleOf(ofPushes, 1)) {
    test(`at ${step} during a commit of the API has one event for it, and it can be undone`, () =>
      crash(step, committing()))
  }
  for (const step of sampleOf(ofPushes, 2)) {
    test(`at ${step} has one event for the push, and retains the overwritten commits`, () =>
      crash(step, pushing()))
  }
  for (const step of sampleOf([...ofUndo, ...ofPushes], 2)) {
    test(`at ${step} during an undo has one event for it, and it can be undone`, () =>
      crash(step, undoing()))
  }
})

test('a proposal is made again whose server was killed before its version was recorded', async () => {
  await using folder = await temporaryFolder()
  const dataDir = join(folder.path, 'data')
  await cp(preparedPath([first]), dataDir, { recursive: true, preserveTimestamps: true })
  const onTop = (message: string) =>
    project.git('commit-tree', `${first}^{tree}`, '-p', first, '-m', message)
  const propose = async ({ admin }: Service, id: string) =>
    (await git(project.path, ['push', admin.remote('site'), `${id}:refs/for/main`])).stderr
  const lost = await onTop('Lost')
  await dieAt('proposal.kept', dataDir, {
    act: (service) => propose(service, lost).catch(() => {}),
  })

  await using service = await startService({ dataDir, env })
  assert.deepEqual((await service.admin.get('/repos/site/changes')).body, [])
  const other = await onTop('Another proposal')
  assert.match(await propose(service, other), /refs\/changes\/1\/1/)
  await project.git('fetch', '--quiet', service.admin.remote('site'), 'refs/changes/1/1')
  assert.equal(await project.git('rev-parse', 'FETCH_HEAD'), other)
})

test('a server that is killed with the objects of a small push in place has changed no ref', async () => {
  await using folder = await temporaryFolder()
  const dataDir = join(folder.path, 'data')
  await cp(preparedPath([first]), dataDir, { recursive: true, preserveTimestamps: true })
  const onTop = await project.git('commit-tree', `${first}^{tree}`, '-p', first, '-m', 'On top')
  const act = ({ admin }: Service) => send(admin.remote('site'), onTop).catch(() => {})
  await dieAt('small-push.stored', dataDir, { act })
  const onNew = async ({ admin }: Service) => {
    await project.git('push', admin.remote('site'), `${onTop}:refs/heads/topic/new`).catch(() => {})
  }
  await dieAt('small-push.stored', dataDir, { act: onNew })

  await using service = await startService({ dataDir, env })
  const listed = async () => (await service.admin.get('/repos/site/pushes')).body
  await assertAgree(service, await listed(), first)
  assert.equal((await listed()).length, 1)
  await untilTidy(dataDir)
  await send(service.admin.remote('site'), onTop)
  await assertAgree(service, await listed(), onTop)
  assert.equal((await listed()).length, 2)
})

async function crash(step: string, scenario: Scenario): Promise<void> {
  await using folder = await temporaryFolder()
  const dataDir = join(folder.path, 'data')
  await cp(preparedPath(scenario.pushed), dataDir, { recursive: true, preserveTimestamps: true })
  await dieAt(step, dataDir, scenario)

  await using service = await startService({ dataDir, env })
  const { admin } = service
  const { body: pushes } = await admin.get('/repos/site/pushes')
  const transports = pushes.map(({ via }: ListedPush) => via)
  assert.deepEqual(transports, scenario.transports, service.log())
  await assertAgree(service, pushes, scenario.value)
  const { status, text } = await admin.post(`/repos/site/pushes/${pushes[0].id}/undo`)
  assert.equal(status, 200, text)
  const { stdout } = await git('/', ['ls-remote', admin.remote('site'), main])
  assert.equal(stdout, `${scenario.value === first ? second : first}\t${main}`)
}

/** A data directory to copy, after as many pushes. */
const preparedPath = (pushed: string[]) => join(prepared.path, String(pushed.length))

async function prepare(pushed: string[]): Promise<void> {
  await using service = await startService({ dataDir: preparedPath(pushed), env })
  await service.admin.post('/repos', { name: 'site' })
  for (const value of pushed) await send(service.admin.remote('site'), value)
  assert.equal(await service.end('SIGTERM'), 0)
}

async function dieAt(step: string, dataDir: string, { act }: Pick<Scenario, 'act'>): Promise<void> {
  await using service = await startService({
    dataDir,
    env: { ...env, SVC_FAULT_POINT: step },
  })
  await act(service)
  await until('it was killed', () => service.hasEnded())
  assert.equal(await service.end('SIGKILL'), null)
}

/** Journal, events, refs and what is kept agree with each other. */
async function assertAgree({ dataDir, admin }: Service, pushes: ListedPush[], value: string) {
  using records = openPushRecords(dataDir)
  assert.deepEqual(records.unfinished(), [])
  const recorded = records.eventsAfter(0).pushes
  assert.deepEqual(
    recorded.map(({ pushId, forced }) => [pushId, forced]),
    pushes.map(({ id, refs }) => [id, refs[0]?.forced]).reverse(),
  )
  const { path } = (await admin.get('/repos/site')).body
  const { visible, kept } = partRefs(await refsIn(path))
  assert.deepEqual([...visible], [[main, value]])
  assert.deepEqual(keptFaults(kept, recorded), [])
}

function send(remote: string, value: string): Promise<string> {
  return project.git('push', '--quiet', remote, `+${value}:${main}`)
}
