import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { type InProcess, startInProcess } from '../support/in-process.ts'
import { processesInWorkspaces } from '../support/processes.ts'
import { begun, claim, jobEnded, mustClaim, runEnded, wholeRun } from '../support/run-by-hand.ts'
import { startService } from '../support/service.ts'
import { endOf, logOf, oneStep, pushFiles } from '../support/workflow-site.ts'

let service: InProcess

before(async () => {
  service = await startInProcess()
  await pushFiles(service.admin, 'site', oneStep('true'))
})

after(() => service[Symbol.asyncDispose]())

async function start() {
  const { body } = await service.admin.post('/repos/site/workflows', {})
  return `/repos/site/workflows/${body.id}`
}

test('a queued run is cancelled at once, and not claimed', async () => {
  const path = await start()
  const answer = await service.admin.post(`${path}/cancel`)
  const { status, conclusion } = answer.body
  assert.deepEqual([answer.status, status, conclusion], [202, 'completed', 'cancelled'])
  const { body } = await service.admin.get(path)
  assert.equal(body.fault, 'Cancelled by admin.')
  assert.equal(body.result.success, false)
  assert.equal(body.failure, null)
  assert.ok(body.completedAt >= body.startedAt)
  assert.equal(await claim(service.admin, { waitSeconds: 0 }), undefined)
})

test('the runner of a cancelled run is notified, and reports its end', async () => {
  const path = await start()
  const held = await mustClaim(service.admin)
  await held.report(...begun())
  const orders = held.own.get(`${held.path}/orders?wait=30`)
  const { status, body } = await service.admin.post(`${path}/cancel`)
  assert.deepEqual([status, body.status], [202, 'running'])
  assert.deepEqual((await orders).body, { cancel: 'Cancelled by admin.', kill: false })
  // Asking again changes nothing.
  assert.equal((await service.admin.post(`${path}/cancel`)).status, 202)
  const { cancel } = await held.report(
    ...jobEnded('cancelled'),
    runEnded('cancelled', 'Cancelled.'),
  )
  assert.equal(cancel, 'Cancelled by admin.')
  const run = (await service.admin.get(path)).body
  assert.deepEqual([run.conclusion, run.result.steps[0].conclusion], ['cancelled', 'cancelled'])
})

test('a run that a crash has left in a deleted repository is not claimed, and cancelled by its restoration', async () => {
  const path = await start()
  const { id } = (await service.admin.get('/repos/site')).body
  await service.db
    .updateTable('repositories')
    .set({ state: 'deleted', deletedAt: Date.now(), nameKey: `deleted/${id}` })
    .where('id', '=', id)
    .execute()
  assert.equal(await claim(service.admin, { waitSeconds: 0 }), undefined)
  assert.equal((await service.admin.post(`/deleted-repos/${id}/restore`)).status, 200)
  const { body } = await service.admin.get(path)
  assert.deepEqual([body.conclusion, body.fault], ['cancelled', 'The repository was deleted.'])
})

test('a completed run cannot be cancelled', async () => {
  const path = await start()
  const held = await mustClaim(service.admin)
  await held.report(...wholeRun())
  const { status, body } = await service.admin.post(`${path}/cancel`)
  assert.deepEqual([status, body.code], [409, 'run_completed'])
  assert.equal((await service.admin.get(path)).body.conclusion, 'success')
})

test('concurrent cancelling and claiming are consistent', exhaustive, async () => {
  for (let round = 0; round < 20; round++) {
    const path = await start()
    const [held, cancelled] = await Promise.all([
      claim(service.admin, { waitSeconds: 0 }),
      service.admin.post(`${path}/cancel`),
    ])
    assert.equal(cancelled.status, 202)
    if (held) await held.report(runEnded('cancelled', 'Cancelled.'))
    const run = (await service.admin.get(path)).body
    assert.deepEqual([run.status, run.conclusion], ['completed', 'cancelled'])
  }
})

test('a run that is cancelled and then lost is not queued again', async () => {
  const path = await start()
  const held = await mustClaim(service.admin)
  await held.report(...begun())
  await service.admin.post(`${path}/cancel`)
  const body = { reason: 'The runner is stopping.', isLoss: false }
  assert.equal((await held.own.post(`${held.path}/release`, body)).status, 204)
  const run = (await service.admin.get(path)).body
  assert.deepEqual([run.status, run.conclusion], ['completed', 'cancelled'])
  assert.equal(run.result.steps[0].conclusion, 'cancelled')
})

test('a run whose runner is lost is queued again, and fails the second time', async () => {
  const path = await start()
  for (const isLast of [false, true]) {
    const held = await mustClaim(service.admin)
    await held.report(...begun())
    const loss = { reason: 'The runner broke.', isLoss: true }
    assert.equal((await held.own.post(`${held.path}/release`, loss)).status, 204)
    const run = (await service.admin.get(path)).body
    assert.equal(run.status, isLast ? 'completed' : 'queued')
    // The token was for what has ended.
    assert.equal((await held.own.get(`${held.path}/orders`)).status, 401)
  }
  const run = (await service.admin.get(path)).body
  assert.deepEqual([run.conclusion, run.attempt], ['failure', 1])
  assert.match(run.fault, /The runner broke\. .*second time/)
  assert.match(await logOf(service.admin, 'site', run.id), /queued again.*second time/s)
})

test('a run that ignores SIGTERM is cancelled with all its processes', exhaustive, async () => {
  await using server = await startService({ env: { SVC_RUNNER: 'on' } })
  const { admin } = server
  const script =
    "trap '' TERM\necho begun\n(setsid sleep 4716001 &)\nwhile true; do sleep 4716001; done"
  await pushFiles(admin, 'site', oneStep(script))
  const { body } = await admin.post('/repos/site/workflows', {})
  await until('it has begun', async () => /begun/.test(await logOf(admin, 'site', body.id)))
  await admin.post(`/repos/site/workflows/${body.id}/cancel`)
  const run = await endOf(admin, 'site', body.id)
  assert.equal(run.conclusion, 'cancelled')
  assert.match(run.fault ?? '', /Cancelled by admin/)
  assert.deepEqual(processesInWorkspaces(server.dataDir), [])
})
