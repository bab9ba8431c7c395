import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  begun,
  claim,
  type HeldRun,
  jobEnded,
  mustClaim,
  runEnded,
  wholeRun,
} from '../support/run-by-hand.ts'
import { type Service, startService } from '../support/service.ts'
import { pushFiles } from '../support/workflow-site.ts'

let service: Service

before(async () => {
  service = await startService()
})

after(() => service[Symbol.asyncDispose]())

const inGroup = (concurrency: string) => `
on: workflow_dispatch
concurrency: ${concurrency}
jobs: { one: { runs-on: ubuntu-latest, steps: [{ run: true }] } }
`

async function site(name: string, files: Record<string, string>) {
  const named = Object.entries(files).map(([file, group]) => [
    `.svc/workflows/${file}`,
    inGroup(group),
  ])
  await pushFiles(service.admin, name, Object.fromEntries(named))
  const at = (id: string) => `/repos/${name}/workflows/${id}`
  return {
    async start(body: object = {}): Promise<string> {
      return (await service.admin.post(`/repos/${name}/workflows`, body)).body.id
    },
    async stateOf(id: string): Promise<string> {
      const { status, conclusion } = (await service.admin.get(at(id))).body
      return conclusion ?? status
    },
    faultOf: async (id: string) => (await service.admin.get(at(id))).body.fault,
    rerun: (id: string) => service.admin.post(`${at(id)}/rerun`, {}),
  }
}

const none = { waitSeconds: 0 }

test('runs are fair by user: one with many repositories gets no more than another', async () => {
  const permissions = ['repo:read', 'repo:write', 'workflow:read', 'workflow:trigger']
  const workflow = inGroup('"${{ github.run_number }}"')
  async function start(username: string, name: string, count: number): Promise<void> {
    const user = await service.client({ username, permissions })
    await pushFiles(user, name, { '.svc/workflows/ci.yml': workflow })
    for (let index = 0; index < count; index++)
      assert.equal((await user.post(`/repos/${name}/workflows`, {})).status, 202)
  }
  const held: HeldRun[] = []
  async function claimNext(): Promise<void> {
    const run = await mustClaim(service.admin)
    await run.report(...begun())
    held.push(run)
  }
  for (const name of ['heavy-1', 'heavy-2', 'heavy-3', 'heavy-4']) await start('heavy', name, 1)
  await claimNext()
  await start('light', 'light', 2)
  for (let count = 0; count < 5; count++) await claimNext()
  assert.deepEqual(
    held.map(({ plan }) => plan.repository.name.replace(/-.*/, '')),
    ['heavy', 'light', 'heavy', 'light', 'heavy', 'heavy'],
  )
  for (const run of held) await run.report(...jobEnded(), runEnded())
})

test('one run of a group runs and one is queued; a newer one replaces the queued one', async () => {
  const { start, stateOf, faultOf } = await site('waits', { 'ci.yml': 'deploy' })
  const first = await start()
  const held = await mustClaim(service.admin)
  const second = await start()
  assert.equal(await claim(service.admin, none), undefined)
  const third = await start()
  assert.deepEqual(
    [await stateOf(first), await stateOf(second), await stateOf(third)],
    ['running', 'cancelled', 'queued'],
  )
  assert.match(await faultOf(second), /newer run of the same concurrency group/)
  await held.report(...wholeRun())
  const next = await mustClaim(service.admin)
  assert.equal(next.plan.runId, third)
  await next.report(...wholeRun())
})

test('with cancel-in-progress, the running run is cancelled', async () => {
  const { start, stateOf } = await site('ends', {
    'ci.yml': '{ group: deploy, cancel-in-progress: true }',
  })
  await start()
  const held = await mustClaim(service.admin)
  await held.report(...begun())
  const second = await start()
  const { body } = await held.own.get(`${held.path}/orders?wait=10`)
  assert.match(body.cancel, /newer run/)
  assert.equal(await claim(service.admin, none), undefined)
  await held.report(runEnded('cancelled', body.cancel))
  const next = await mustClaim(service.admin)
  assert.equal(next.plan.runId, second)
  assert.equal(await stateOf(held.plan.runId), 'cancelled')
  await next.report(...wholeRun())
})

test('a group spans all files of a repository, case-insensitively, and no other repository', async () => {
  const group = "'${{ github.ref_name }}-deploy'"
  const { start } = await site('files', {
    'a.yml': group,
    'b.yml': 'MAIN-Deploy',
    'c.yml': 'other',
  })
  const elsewhere = await site('elsewhere', { 'a.yml': group })
  await start({ files: ['a.yml'] })
  const held = await mustClaim(service.admin)
  const waiting = await start({ files: ['b.yml'] })
  const free = await start({ files: ['c.yml'] })
  const other = await elsewhere.start()
  const taken = [await mustClaim(service.admin, none), await mustClaim(service.admin, none)]
  assert.deepEqual(taken.map(({ plan }) => plan.runId).sort(), [free, other].sort())
  assert.equal(await claim(service.admin, none), undefined)
  for (const run of [held, ...taken]) await run.report(...wholeRun())
  const last = await mustClaim(service.admin)
  assert.equal(last.plan.runId, waiting)
  await last.report(...wholeRun())
})

test('a rerun waits for its group, and replaces the queued run', async () => {
  const { start, stateOf, rerun } = await site('again', { 'ci.yml': 'deploy' })
  const first = await start()
  await (await mustClaim(service.admin)).report(...wholeRun())
  const second = await start()
  const held = await mustClaim(service.admin)
  const third = await start()
  assert.equal((await rerun(first)).status, 202)
  assert.deepEqual([await stateOf(second), await stateOf(third)], ['running', 'cancelled'])
  assert.equal(await claim(service.admin, none), undefined)
  await held.report(...wholeRun())
  const again = await mustClaim(service.admin)
  assert.deepEqual([again.plan.runId, again.plan.attempt], [first, 2])
  await again.report(...wholeRun())
})

test('concurrently claimed runs of one group do not run at the same time', async () => {
  const { start, stateOf } = await site('race', { 'ci.yml': 'deploy' })
  const ids: string[] = []
  const first = await start()
  const held = await mustClaim(service.admin)
  ids.push(first, await start())
  // Handed back, it waits beside the one that waits already.
  await held.own.post(`${held.path}/release`, { reason: 'Stopping.', isLoss: false })
  const taken = await Promise.all(Array.from({ length: 5 }, () => claim(service.admin, none)))
  const runs = taken.filter((one) => one !== undefined)
  assert.equal(runs.length, 1)
  await runs[0]?.report(...wholeRun())
  await (await mustClaim(service.admin)).report(...wholeRun())
  assert.deepEqual(await Promise.all(ids.map(stateOf)), ['success', 'success'])
})

test('runs wait for a runner with their labels, and repositories take turns', async () => {
  const labelled = (labels: string) => `
on: workflow_dispatch
jobs: { one: { runs-on: ${labels}, steps: [{ run: true }] } }
`
  const files = { '.svc/workflows/ci.yml': labelled('[self-hosted, gpu]') }
  await pushFiles(service.admin, 'gpu', files)
  const { body } = await service.admin.post('/repos/gpu/workflows', {})
  assert.equal(await claim(service.admin, none), undefined)
  assert.equal(await claim(service.admin, { ...none, labels: ['big'] }), undefined)
  const held = await mustClaim(service.admin, { labels: ['big', 'gpu'] })
  assert.equal(held.plan.runId, body.id)
  await held.report(...wholeRun())
  await pushFiles(service.admin, 'busy', { '.svc/workflows/ci.yml': labelled('ubuntu-latest') })
  await pushFiles(service.admin, 'calm', { '.svc/workflows/ci.yml': labelled('ubuntu-latest') })
  for (const name of ['busy', 'busy', 'busy', 'calm'])
    await service.admin.post(`/repos/${name}/workflows`, {})
  const runs = [await mustClaim(service.admin), await mustClaim(service.admin)]
  assert.deepEqual(
    runs.map(({ plan }) => plan.repository.name),
    ['busy', 'calm'],
  )
  runs.push(await mustClaim(service.admin), await mustClaim(service.admin))
  for (const run of runs) await run.report(...wholeRun())
})
