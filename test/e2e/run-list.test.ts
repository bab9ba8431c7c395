import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { exhaustive } from '../support/exhaustive.ts'
import { type InProcess, startInProcess } from '../support/in-process.ts'
import { begun, jobEnded, mustClaim, runEnded, wholeRun, wrote } from '../support/run-by-hand.ts'
import { startService } from '../support/service.ts'
import { oneStep, pushFiles, runToEnd } from '../support/workflow-site.ts'

let service: InProcess

before(async () => {
  service = await startInProcess()
})

after(() => service[Symbol.asyncDispose]())

async function start(name: string, body: object = {}) {
  return (await service.admin.post(`/repos/${name}/workflows`, body)).body.id
}

test('a completed run has the documented fields', async () => {
  await using server = await startService({ env: { SVC_RUNNER: 'on' } })
  await pushFiles(server.admin, 'site', oneStep('echo one; echo two >&2; exit 3'))
  const run = await runToEnd(server.admin, 'site', { branch: 'main' })
  const [listed] = (await server.admin.get('/repos/site/workflows')).body
  for (const shown of [run, listed]) {
    assert.deepEqual([shown.repoName, shown.branch, shown.status], ['site', 'main', 'completed'])
    assert.ok(Number.isInteger(shown.startedAt) && shown.completedAt >= shown.startedAt)
    assert.ok(shown.createdAt <= shown.startedAt)
    const { success, duration, steps } = shown.result
    assert.deepEqual([success, duration], [false, shown.completedAt - shown.startedAt])
    const [step] = steps
    assert.equal(steps.length, 1)
    assert.deepEqual([step.name, step.success, step.exitCode], ['Only', false, 3])
    assert.equal(step.output, 'one\ntwo\n')
    assert.ok(Number.isInteger(step.duration) && step.duration >= 0)
  }
})

test(
  'runs are listed newest first, in pages of a hundred, filtered by branch or state',
  exhaustive,
  async () => {
    await pushFiles(service.admin, 'many', oneStep('true'))
    await pushFiles(service.admin, 'many', oneStep('true'), { branch: 'dev' })
    const made: string[] = []
    for (let n = 0; n < 105; n++) {
      made.unshift(await start('many', n % 2 === 0 ? {} : { branch: 'dev' }))
      const held = await mustClaim(service.admin)
      if (n < 100) await held.report(...wholeRun())
    }
    const idsAt = async (path: string) => {
      const { body, headers } = await service.admin.get(path)
      const [, next] = /^<(.*)>; rel="next"$/.exec(headers.get('link') ?? '') ?? []
      return { ids: body.map(({ id }: { id: string }) => id), next }
    }
    const first = await idsAt('/repos/many/workflows')
    assert.deepEqual(first.ids, made.slice(0, 100))
    const second = await idsAt(first.next ?? '')
    assert.deepEqual([second.ids, second.next], [made.slice(100), undefined])
    const dev = await idsAt('/repos/many/workflows?branch=dev&limit=50')
    assert.deepEqual(dev.ids, made.filter((_, at) => at % 2 === 1).slice(0, 50))
    assert.match(dev.next ?? '', /branch=dev/)
    assert.equal((await idsAt(dev.next ?? '')).ids.length, 2)
    assert.equal((await idsAt('/repos/many/workflows?status=running')).ids.length, 5)
    assert.equal((await idsAt('/repos/many/workflows?limit=1000')).ids.length, 105)
    for (const query of ['limit=0', 'limit=1001', 'status=done', 'cursor=x'])
      assert.equal((await service.admin.get(`/repos/many/workflows?${query}`)).status, 400, query)
  },
)

test('a waiting request gets the run when it completes', async () => {
  await pushFiles(service.admin, 'patience', oneStep('true'))
  const path = `/repos/patience/workflows/${await start('patience')}`
  const waiting = Array.from({ length: 5 }, () => service.admin.get(`${path}?wait=300`))
  const held = (await claimOf('patience')) ?? assert.fail()
  await held.report(...wholeRun())
  for (const { body } of await Promise.all(waiting)) assert.equal(body.status, 'completed')
  assert.equal((await service.admin.get(`${path}?wait=300`)).body.status, 'completed')
  assert.equal((await service.admin.get(`${path}?wait=301`)).status, 400)
  const other = `/repos/patience/workflows/${await start('patience')}`
  assert.equal((await service.admin.get(`${other}?wait=0`)).body.status, 'queued')
  assert.equal((await service.admin.get(`${other}?wait=1`)).body.status, 'queued')
})

test('a running run shows its progress', async () => {
  await pushFiles(service.admin, 'way', oneStep('true'))
  const path = `/repos/way/workflows/${await start('way')}`
  const held = (await claimOf('way')) ?? assert.fail()
  await held.report(...begun(), wrote('so far\n'))
  const run = (await service.admin.get(path)).body
  assert.deepEqual([run.status, run.result, run.completedAt], ['running', null, null])
  const [step] = run.steps
  assert.deepEqual([step.status, step.output, step.completedAt], ['running', 'so far\n', null])
  await held.report(...jobEnded(), runEnded())
})

test('a failure is described in one object: step, exit code, last lines, and commits since', async () => {
  const { admin } = service
  const green = await pushFiles(admin, 'failing', oneStep('true'))
  const greenId = await start('failing')
  await (await claimOf('failing'))?.report(...wholeRun())
  await pushFiles(admin, 'failing', { 'a.txt': 'a' }, { message: 'First change' })
  const last = await pushFiles(
    admin,
    'failing',
    { 'b.txt': 'b' },
    { message: 'Second change\n\nWhy' },
  )
  const path = `/repos/failing/workflows/${await start('failing')}`
  const held = (await claimOf('failing')) ?? assert.fail()
  const lines = Array.from({ length: 80 }, (_, n) => `line ${n}\n`)
  await held.report(...begun(), ...lines.map((line) => wrote(line)))
  await held.report(...jobEnded('failure', { exitCode: 7 }), runEnded('failure'))
  const { failure } = (await admin.get(path)).body
  assert.deepEqual(
    [failure.workflow, failure.job, failure.step, failure.exitCode, failure.reason],
    ['ci', 'steps', 'Only', 7, null],
  )
  assert.deepEqual(
    failure.lastLines,
    lines.slice(-50).map((line) => line.trimEnd()),
  )
  assert.equal(failure.lastGreenRun.id, greenId)
  assert.deepEqual([failure.lastGreenRun.number, failure.lastGreenRun.commit], [1, green])
  assert.deepEqual(
    failure.commitsSince.map(({ message }: { message: string }) => message),
    ['Second change', 'First change'],
  )
  assert.equal(failure.commitsSince[0].id, last)
})

test(
  'responses for runs with very many steps, outputs and summaries are limited',
  exhaustive,
  async () => {
    const { admin, db } = service
    await pushFiles(admin, 'huge', oneStep('true'))
    const ids: string[] = []
    for (let n = 0; n < 3; n++) {
      ids.unshift(await start('huge'))
      const held = (await claimOf('huge')) ?? assert.fail()
      await held.report(...begun(), wrote('first\n'), wrote('x'.repeat(60_000)), wrote('last\n'))
      await held.report(...jobEnded(), runEnded())
    }
    const id = ids[0] ?? ''
    const more = Array.from({ length: 6000 }, (_, n) => ({
      step: n + 1,
      summary: 's'.repeat(5000),
    }))
    const [row] = await db.selectFrom('runSteps').selectAll().where('runId', '=', id).execute()
    assert.ok(row)
    const logs = { attempt: 1, size: 60_001, prefix: '', text: `${'y'.repeat(60_000)}\n` }
    for (const runId of ids) {
      for (let at = 0; at < more.length; at += 500) {
        const some = more.slice(at, at + 500)
        await db
          .insertInto('runSteps')
          .values(some.map((one) => ({ ...row, ...one, runId })))
          .execute()
      }
    }
    for (let n = 0; n < 400; n++)
      await db
        .insertInto('runLogs')
        .values({ ...logs, runId: id, step: n, start: 1e6 + n * 60_001 })
        .execute()
    await db
      .updateTable('runs')
      .set({ logBytes: 1e6 + 400 * 60_001 })
      .where('id', '=', id)
      .execute()
    const list = await admin.get('/repos/huge/workflows?limit=3')
    assert.deepEqual(
      list.body.map((run: { id: string }) => run.id),
      ids.slice(0, 1),
    )
    assert.match(list.headers.get('link') ?? '', /limit=3&cursor=/)
    assert.ok(list.text.length < 16e6)
    const one = await admin.get(`/repos/huge/workflows/${id}`)
    assert.ok(one.text.length < 32e6, String(one.text.length))
    assert.equal(one.body.result.steps.length, 6001)
    assert.match(one.body.result.steps[5].output, /^y+\n$/)
    assert.ok(one.body.result.steps[5].summary.length > 1000)
  },
)

/** Claims the run of a repository that waits. */
async function claimOf(name: string) {
  for (;;) {
    const held = await mustClaim(service.admin)
    if (held.plan.repository.name === name) return held
    await held.report(runEnded())
  }
}
