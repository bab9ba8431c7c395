import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Annotation, RunEntry } from '#actions/workflow-engine/plan.ts'
import { logIn, type PageClient } from '../support/page-client.ts'
import { begun, jobEnded, mustClaim, runEnded } from '../support/run-by-hand.ts'
import { type Service, startService } from '../support/service.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

let service: Service
let client: PageClient
let commit: string

before(async () => {
  service = await startService()
  const files = { ...oneStep('true'), 'src/a.js': 'one\ntwo\nthree\n' }
  commit = await pushFiles(service.admin, 'site', files)
  client = await logIn(service.url, service.adminToken)
})

after(() => service[Symbol.asyncDispose]())

function annotation(step: number, more: Partial<Annotation> = {}): RunEntry {
  const position = { file: 'src/a.js', line: 2, endLine: 2, column: null, endColumn: null }
  const text = { title: 'Lint <b>', message: 'It is\n<i>wrong</i>' }
  return { kind: 'annotation', step, level: 'error', ...position, ...text, ...more }
}

async function annotatedRun() {
  const { body } = await service.admin.post('/repos/site/workflows', {})
  const held = await mustClaim(service.admin)
  await held.report(...begun(), annotation(0))
  await held.report(
    annotation(0, { level: 'notice', file: '', line: null, endLine: null, title: '' }),
    ...jobEnded('failure'),
    runEnded('failure'),
  )
  return body.number as number
}

test('a run lists its annotations, and its failure those of the failed step', async () => {
  const number = await annotatedRun()
  const { body } = await service.admin.get(`/repos/site/workflows/${number}`)
  const { kind: _, ...expected } = annotation(0) as RunEntry & { kind: 'annotation' }
  assert.deepEqual(body.annotations[0], expected)
  assert.deepEqual(
    body.annotations.map((one: Annotation) => one.level),
    ['error', 'notice'],
  )
  assert.deepEqual(body.failure.annotations, [expected])
})

test('a commit lists what its runs say, the newest run first', async () => {
  const number = await annotatedRun()
  const { body } = await service.admin.get(`/repos/site/annotations?commit=${commit}`)
  assert.equal(body[0].run.number, number)
  assert.equal(body[0].file, 'src/a.js')
  assert.ok(body.length >= 2)
  const other = await service.admin.get(`/repos/site/annotations?commit=${'0'.repeat(40)}`)
  assert.deepEqual(other.body, [])
  assert.equal((await service.admin.get('/repos/site/annotations?commit=main')).status, 400)
})

test('pages show annotations as text beside their lines', async () => {
  const number = await annotatedRun()
  const run = await client.get(`/r/site/runs/${number}`)
  assert.match(run.text, /aria-label="Annotations"[\s\S]*Lint &lt;b&gt;/)
  assert.match(run.text, new RegExp(`href="/r/site/src/${commit}:src/a\\.js#L2">src/a\\.js:2<`))
  assert.match(run.text, /<section class="digest">[\s\S]*src\/a\.js:2[\s\S]*&lt;i&gt;wrong/)
  for (const query of ['', '?split']) {
    const page = await client.get(`/r/site/commit/${commit}${query}`)
    assert.match(
      page.text,
      /<tr id="f\d+R2"(?:(?!<tr).)*\n?<tr class="fold annotation">(?:(?!<tr)[\s\S])*&lt;i&gt;wrong/,
    )
  }
})

test('what the jobs of a matrix all say is listed once, and a long list is folded', async () => {
  const { body } = await service.admin.post('/repos/site/workflows', {})
  const held = await mustClaim(service.admin)
  const entries = [0, 1, 2].map(() => annotation(0, { message: 'again' }))
  await held.report(...begun(), ...entries, annotation(0, { level: 'warning', message: 'other' }))
  const listOf = async () => {
    const { text } = await client.get(`/r/site/runs/${body.number}`)
    return /<section class="card annotations"[\s\S]*?<\/section>/.exec(text)?.[0] ?? ''
  }
  const short = await listOf()
  assert.equal(short.match(/again/g)?.length, 1)
  assert.match(short, /3 times/)
  assert.match(short, /<details open>[\s\S]*1 error, 1 warning/)
  const more = Array.from({ length: 8 }, (_, at) =>
    annotation(0, { line: at + 1, endLine: at + 1 }),
  )
  await held.report(...more, ...jobEnded('failure'), runEnded('failure'))
  assert.match(await listOf(), /<details><summary>[\s\S]*9 errors, 1 warning/)
})

test('a job that is reused keeps its annotations, attempt after attempt', async () => {
  const { body } = await service.admin.post('/repos/site/workflows', {})
  const first = await mustClaim(service.admin)
  const second = { job: 1, id: 'second' }
  const third = { job: 2, id: 'third' }
  await first.report(
    ...begun(),
    ...begun(second),
    ...begun(third),
    annotation(0),
    ...jobEnded('success'),
    ...jobEnded('failure', second),
    ...jobEnded('failure', third),
    runEnded('failure'),
  )
  const rerun = () =>
    service.admin.post(`/repos/site/workflows/${body.number}/rerun`, { jobs: 'failed' })
  await rerun()
  const next = await mustClaim(service.admin)
  const [planned] = begun()
  assert.ok(planned)
  const again = (id: string, job: number, step: number): RunEntry[] => [
    { ...(planned as RunEntry & { kind: 'job-planned' }), job, id, name: id },
    { kind: 'step-planned', job, step, name: 'Only' },
    { kind: 'job-started', job, at: 1000 },
    { kind: 'step-started', step, at: 2000 },
  ]
  const reused = (id: string, job: number): RunEntry[] => [
    { ...(planned as RunEntry & { kind: 'job-planned' }), job, id, name: id },
    { kind: 'job-ended', job, at: 3000, conclusion: 'success', outputs: {}, fault: '' },
  ]
  const stepEnded = (step: number, conclusion: 'success' | 'failure'): RunEntry => ({
    ...{ kind: 'step-ended', step, at: 5000, conclusion, exitCode: 0, fault: '', summary: '' },
  })
  const ended = (job: number, conclusion: 'success' | 'failure'): RunEntry => ({
    ...{ kind: 'job-ended', job, at: 5000, conclusion, outputs: {}, fault: '' },
  })
  await next.report(
    ...reused('steps', 0),
    ...again('second', 1, 0),
    ...again('third', 2, 1),
    annotation(0, { message: 'of the second' }),
    stepEnded(0, 'success'),
    stepEnded(1, 'failure'),
    ended(1, 'success'),
    ended(2, 'failure'),
    runEnded('failure'),
  )
  await rerun()
  const last = await mustClaim(service.admin)
  await last.report(
    ...reused('steps', 0),
    ...reused('second', 1),
    ...again('third', 2, 0),
    stepEnded(0, 'success'),
    ended(2, 'success'),
    runEnded('success'),
  )
  const run = await service.admin.get(`/repos/site/workflows/${body.number}`)
  assert.equal(run.body.conclusion, 'success')
  assert.deepEqual(run.body.annotations.map((one: Annotation) => one.message).sort(), [
    'It is\n<i>wrong</i>',
    'of the second',
  ])
  assert.equal(run.body.result.steps.length, 3)
})

test('the annotations of a reused job keep their order', async () => {
  const { body } = await service.admin.post('/repos/site/workflows', {})
  const first = await mustClaim(service.admin)
  const second = { job: 1, id: 'second' }
  const messages = ['one', 'two', 'three']
  await first.report(
    ...begun(),
    ...begun(second),
    ...messages.map((message) => annotation(0, { message })),
    ...jobEnded('success'),
    ...jobEnded('failure', second),
    runEnded('failure'),
  )
  await service.admin.post(`/repos/site/workflows/${body.number}/rerun`, { jobs: 'failed' })
  const next = await mustClaim(service.admin)
  const [planned] = begun()
  const ended = jobEnded('success').at(-1)
  assert.ok(planned && ended)
  const failed = [...begun(second), ...jobEnded('failure', second)]
  await next.report(planned, ended, ...failed, runEnded('failure'))
  const run = await service.admin.get(`/repos/site/workflows/${body.number}`)
  assert.deepEqual(
    run.body.annotations.map((one: Annotation) => one.message),
    messages,
  )
})
