import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { followLog, followStream } from '../support/event-stream.ts'
import { createRandom } from '../support/random.ts'
import {
  begun,
  type HeldRun,
  jobEnded,
  mustClaim,
  runEnded,
  wrote,
} from '../support/run-by-hand.ts'
import { type Service, startService } from '../support/service.ts'
import { endOf, oneStep, pushFiles } from '../support/workflow-site.ts'

let service: Service

before(async () => {
  service = await startService()
  await pushFiles(service.admin, 'site', oneStep('true'))
})

after(() => service[Symbol.asyncDispose]())

/** A run that has begun, and the address of its log. */
async function beginRun(...entries: Parameters<HeldRun['report']>) {
  const { body } = await service.admin.post('/repos/site/workflows', {})
  const held = await mustClaim(service.admin)
  assert.equal(held.plan.runId, body.id)
  if (entries.length > 0) await held.report(...entries)
  const path = `/repos/site/workflows/${body.id}`
  return { held, path, log: `${path}/logs` }
}

async function bytesOf(path: string): Promise<Buffer> {
  const response = await fetch(service.url + path, {
    headers: { authorization: `Bearer ${service.adminToken}` },
  })
  assert.equal(response.status, 200)
  return Buffer.from(await response.arrayBuffer())
}

test('a log is read completely, or from any byte', async () => {
  const { held, log } = await beginRun(...begun(), wrote('größer\n'), wrote('😀 fine\n'))
  await held.report(...jobEnded(), runEnded())
  const whole = await bytesOf(log)
  assert.match(whole.toString(), /^▶ steps › Only\ngrößer\n😀 fine\n✓ success\n$/)
  for (let offset = 0; offset <= whole.length + 1; offset++) {
    assert.deepEqual(await bytesOf(`${log}?offset=${offset}`), whole.subarray(offset), `${offset}`)
  }
})

test('a step that is named at its start has that name', async () => {
  const { held, path, log } = await beginRun(...begun({ name: 'Release ${{ env.V }}' }).slice(0, 3))
  await held.report({ kind: 'step-started', step: 0, at: 2000, name: 'Release 1.2' })
  await held.report(wrote('out\n'), ...jobEnded('failure'), runEnded('failure'))
  const { result, failure } = (await service.admin.get(path)).body
  assert.deepEqual([result.steps[0].name, failure.step], ['Release 1.2', 'Release 1.2'])
  assert.match((await bytesOf(log)).toString(), /^▶ steps › Release 1\.2\nout\n/)
})

test('an unknown step is a problem, and a step without output has an empty log', async () => {
  const { held, path, log } = await beginRun(...begun())
  await held.report(...jobEnded('failure'), runEnded('failure'))
  const { status, body } = await service.admin.get(`${log}?step=77`)
  assert.deepEqual([status, body.code], [404, 'run_not_found'])
  assert.match(body.detail, /has no step 77/)
  assert.equal((await bytesOf(`${log}?step=0`)).toString(), '')
  assert.deepEqual((await service.admin.get(path)).body.failure.lastLines, [])
})

test('the output of one step can be read', async () => {
  const { held, log } = await beginRun(
    ...begun(),
    ...begun({ job: 1, id: 'other' }),
    wrote('one\n', 0),
    wrote('two\n', 1),
    wrote('three\n', 0),
  )
  assert.equal(String(await bytesOf(`${log}?step=0`)), 'one\nthree\n')
  assert.equal(String(await bytesOf(`${log}?step=0&offset=5`)), 'hree\n')
  assert.equal(String(await bytesOf(`${log}?step=1`)), 'two\n')
  await held.report(...jobEnded(), ...jobEnded('success', { job: 1 }), runEnded())
})

test('an unknown attempt has no log', async () => {
  const { held, log } = await beginRun(runEnded())
  assert.equal((await service.admin.get(`${log}?attempt=2`)).body.code, 'run_not_found')
  assert.equal((await service.admin.get(`${log}?attempt=0`)).status, 400)
  assert.equal((await service.admin.get(`${log}?offset=-1`)).status, 400)
  assert.equal((await service.admin.get(`${log}?step=x`)).status, 400)
  assert.ok(held)
})

test('a followed log gets each piece as it is written, and the end', async () => {
  const { held, log } = await beginRun(...begun())
  await using follower = await followLog(service.admin, log)
  assert.equal(await follower.next(), '▶ steps › Only\n')
  await held.report(wrote('one\n\n'))
  assert.equal(await follower.next(), 'one\n\n')
  await held.report(wrote('two\n'), ...jobEnded('failure'), runEnded('failure'))
  assert.match(await follower.rest(), /^two\n✗ .*\n✗ failure\n$/)
  assert.deepEqual(follower.end(), { conclusion: 'failure' })
})

test('a log that is followed with states names the step of each output', async () => {
  const { held, path, log } = await beginRun(...begun(), wrote('before\n'))
  const { number, logBytes, steps } = (await service.admin.get(path)).body
  assert.equal(steps[0].output, 'before\n')
  const byNumber = `/repos/site/workflows/${number}/logs`
  await using follower = await followStream(
    service.admin,
    `${byNumber}?states=true&offset=${logBytes}`,
  )
  const next = async () => {
    const event = await follower.next()
    return event && { name: event.name, ...JSON.parse(event.data) }
  }
  const state = await next()
  assert.deepEqual([state.name, state.steps[0].status], ['state', 'running'])
  await held.report(wrote('after\n'))
  assert.deepEqual(await next(), { name: 'output', step: 0, prefix: '', text: 'after\n' })
  await held.report(...jobEnded('failure'))
  const events = [await next(), await next()]
  assert.deepEqual(
    events.map(({ name }) => name),
    ['output', 'state'],
  )
  assert.equal(events[1].jobs[0].conclusion, 'failure')
  await held.report(runEnded('failure'))
  const last = [await next(), await next()]
  assert.deepEqual(last.at(-1), { name: 'end', conclusion: 'failure' })
  assert.equal((await bytesOf(log)).length, (await service.admin.get(path)).body.logBytes)
})

test('broken connections lose nothing of a followed log', async () => {
  const random = createRandom(8)
  const { held, log } = await beginRun(...begun())
  let text = ''
  let last: string | undefined
  let connections = 0
  const writing = (async () => {
    for (let n = 0; n < 60; n++)
      await held.report(wrote(`line ${n} ${'ä'.repeat(random.below(40))}\n`))
    await held.report(...jobEnded(), runEnded())
  })()
  for (let isOver = false; !isOver; connections++) {
    assert.ok(connections < 1000)
    const headers = last === undefined ? {} : { 'last-event-id': last }
    await using follower = await followLog(service.admin, log, headers)
    const pieces = 1 + random.below(4)
    for (let count = 0; count < pieces && !follower.end(); count++) text += await follower.next()
    last = follower.lastId()
    isOver = follower.end() !== undefined
  }
  await writing
  assert.ok(connections > 5)
  assert.equal(text, String(await bytesOf(log)))
})

test('in a followed log, carriage returns end lines', async () => {
  const { held, log } = await beginRun(...begun(), wrote('10%\r50%\r100%\r\n'), ...jobEnded())
  await held.report(runEnded())
  await using follower = await followLog(service.admin, log)
  assert.match(await follower.rest(), /\n10%\n50%\n100%\n✓/)
  assert.equal(follower.lastId(), String((await bytesOf(log)).length))
})

test('a followed log whose repository is deleted ends with the reason', async () => {
  await pushFiles(service.admin, 'gone', oneStep('true'))
  const { body } = await service.admin.post('/repos/gone/workflows', {})
  await using follower = await followLog(service.admin, `/repos/gone/workflows/${body.id}/logs`)
  const rest = follower.rest()
  assert.equal((await service.admin.delete('/repos/gone')).status, 204)
  await rest
  // Its run ends, and so does the access to it. Whichever the server notices first is the reason that it gives.
  const { conclusion } = follower.end() ?? {}
  if (conclusion === undefined)
    assert.match(follower.comments.at(-1) ?? '', /repository (was deleted|"gone")/)
  else assert.ok(['deleted', 'cancelled'].includes(conclusion), conclusion)
})

test('a stopping server ends followed logs and waiting requests at once', async () => {
  await using server = await startService({ env: { SVC_STOP_SECONDS: '3600' } })
  const { admin } = server
  await pushFiles(admin, 'site', oneStep('true'))
  const { body } = await admin.post('/repos/site/workflows', {})
  const held = await mustClaim(admin)
  await held.report(...begun())
  const path = `/repos/site/workflows/${body.id}`
  await using follower = await followLog(admin, `${path}/logs`)
  await follower.next()
  const waiting = [
    admin.get(`${path}?wait=300`),
    held.own.get(`${held.path}/orders?wait=30`),
    follower.rest(),
  ]
  // Those have arrived when a later request is answered.
  await admin.get('/health')
  assert.equal(await server.end('SIGTERM'), 0)
  await Promise.allSettled(waiting)
  assert.equal(follower.end(), undefined)
})

test('the log of a run is followed to its end', async () => {
  await using server = await startService({ env: { SVC_RUNNER: 'on' } })
  const { admin } = server
  await pushFiles(admin, 'site', oneStep('for n in 1 2 3; do echo "line $n"; sleep 0.1; done'))
  const { body } = await admin.post('/repos/site/workflows', {})
  await using follower = await followLog(admin, `/repos/site/workflows/${body.id}/logs`)
  const text = await follower.rest()
  await endOf(admin, 'site', body.id)
  assert.equal(text, (await admin.get(`/repos/site/workflows/${body.id}/logs`)).text)
  assert.match(text, /line 1\nline 2\nline 3\n/)
})
