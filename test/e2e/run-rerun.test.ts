// Tags: each-store
import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { git } from '../support/git.ts'
import { onlyLocal } from '../support/kind-of-store.ts'
import { begun, jobEnded, mustClaim, runEnded, wholeRun, wrote } from '../support/run-by-hand.ts'
import { type Service, startService } from '../support/service.ts'
import { endOf, oneStep, pushFiles, runToEnd } from '../support/workflow-site.ts'

let service: Service

before(async () => {
  service = await startService()
  await pushFiles(service.admin, 'site', oneStep('true'))
})

after(() => service[Symbol.asyncDispose]())

async function start(name = 'site') {
  const { body } = await service.admin.post(`/repos/${name}/workflows`, {})
  return `/repos/${name}/workflows/${body.id}`
}

test('a completed run is rerun as its next attempt, and the earlier one is kept', async () => {
  const { admin } = service
  const path = await start()
  const first = await mustClaim(admin)
  await first.report(...wholeRun('failure', 'first try\n'))
  const grace = await service.client({ username: 'grace', permissions: ['workflow:trigger'] })
  await admin.post('/repos/site/collaborators', { username: 'grace' })
  const { status, body } = await grace.post(`${path}/rerun`, {})
  assert.deepEqual([status, body.status, body.attempt, body.actor], [202, 'queued', 2, 'grace'])
  const { startedAt, completedAt, result } = (await admin.get(path)).body
  assert.deepEqual([startedAt, completedAt, result], [null, null, null])
  const second = await mustClaim(admin)
  assert.deepEqual(
    [second.plan.attempt, second.plan.actor, second.plan.triggeringActor],
    [2, 'admin', 'grace'],
  )
  assert.deepEqual(second.plan.kept, [])
  await second.report(...wholeRun('success', 'second try\n'))
  const run = (await admin.get(path)).body
  assert.deepEqual([run.conclusion, run.number, run.failure], ['success', 1, null])
  const [attempt] = run.attempts
  assert.equal(run.attempts.length, 1)
  assert.deepEqual([attempt.attempt, attempt.actor, attempt.conclusion], [1, 'admin', 'failure'])
  assert.match((await admin.get(`${path}/logs?attempt=1`)).text, /first try/)
  assert.match((await admin.get(`${path}/logs`)).text, /second try/)
  assert.doesNotMatch((await admin.get(`${path}/logs`)).text, /first try/)
  assert.equal((await admin.get(`${path}/logs?attempt=1&step=0`)).text, 'first try\n')
  const former = (await admin.get(`${path}?attempt=1`)).body
  assert.deepEqual([former.conclusion, former.actor, former.attempt], ['failure', 'admin', 1])
  assert.equal(former.result.steps[0].output, 'first try\n')
  assert.equal((await admin.get(`${path}?attempt=3`)).status, 404)
})

test('rerunning failed jobs reuses the successful ones, with their outputs', async () => {
  const { admin } = service
  const path = await start()
  const first = await mustClaim(admin)
  await first.report(
    ...begun({ id: 'good' }),
    ...begun({ job: 1, id: 'bad' }),
    ...jobEnded('success', { outputs: { version: '7' } }),
    ...jobEnded('failure', { job: 1 }),
    runEnded('failure'),
  )
  await admin.post(`${path}/rerun`, { jobs: 'failed' })
  const second = await mustClaim(admin)
  assert.deepEqual(
    second.plan.kept.map(({ id, outputs }) => [id, outputs]),
    [['good', { version: '7' }]],
  )
  const [planned, ended] = [begun({ id: 'good' })[0], jobEnded('success')[1]]
  assert.ok(planned && ended)
  await second.report(
    planned,
    ...begun({ job: 1, id: 'bad' }),
    ended,
    ...jobEnded('success', { job: 1 }),
    runEnded('success'),
  )
  const { result, jobs } = (await admin.get(path)).body
  assert.deepEqual(
    result.steps.map(({ job, conclusion }: { job: string; conclusion: string }) => [
      job,
      conclusion,
    ]),
    [
      ['good', 'success'],
      ['bad', 'success'],
    ],
  )
  assert.ok(jobs.every(({ startedAt }: { startedAt: number | null }) => startedAt !== null))
  await admin.post(`${path}/rerun`, {})
  const third = await mustClaim(admin)
  assert.deepEqual(third.plan.kept, [])
  await third.report(...wholeRun())
  assert.deepEqual(
    (await admin.get(path)).body.attempts.map(
      ({ conclusion }: { conclusion: string }) => conclusion,
    ),
    ['failure', 'success'],
  )
})

test('a successful job that depends on a failed one runs again with it', async () => {
  const { admin } = service
  const job = (needs: string) =>
    `{ needs: [${needs}], if: always(), runs-on: ubuntu-latest, steps: [{ run: 'true' }] }`
  const jobs = `good: ${job('')}\n  bad: ${job('')}\n  after: ${job('bad')}\n  last: ${job('after, good')}\n  calm: ${job('good')}`
  await pushFiles(admin, 'chain', {
    '.svc/workflows/ci.yml': `on: workflow_dispatch\njobs:\n  ${jobs}\n`,
  })
  const path = await start('chain')
  const ids = ['good', 'bad', 'after', 'last', 'calm']
  await (await mustClaim(admin)).report(
    ...ids.flatMap((id, job) => begun({ job, id })),
    ...ids.flatMap((id, job) => jobEnded(id === 'bad' ? 'failure' : 'success', { job })),
    runEnded('failure'),
  )
  await admin.post(`${path}/rerun`, { jobs: 'failed' })
  const second = await mustClaim(admin)
  assert.deepEqual(
    second.plan.kept.map(({ id }) => id),
    ['good', 'calm'],
  )
  await second.report(runEnded())
})

test('a queued or running run cannot be rerun', async () => {
  const { admin } = service
  const path = await start()
  assert.equal((await admin.post(`${path}/rerun`, {})).body.code, 'run_not_completed')
  const held = await mustClaim(admin)
  assert.equal((await admin.post(`${path}/rerun`, {})).body.code, 'run_not_completed')
  await held.report(...wholeRun())
  const answers = await Promise.all([
    admin.post(`${path}/rerun`, {}),
    admin.post(`${path}/rerun`, {}),
  ])
  assert.deepEqual(answers.map(({ status }) => status).sort(), [202, 409])
  await (await mustClaim(admin)).report(runEnded())
})

test('a run that could not start cannot be rerun', async () => {
  const { admin } = service
  await pushFiles(admin, 'broken', { '.svc/workflows/ci.yml': 'steps: nothing' })
  const run = await until(
    'a run is there',
    async () => (await admin.get('/repos/broken/workflows')).body[0],
  )
  assert.equal(run.conclusion, 'failure')
  const { status, body } = await admin.post(`/repos/broken/workflows/${run.id}/rerun`, {})
  assert.deepEqual([status, body.code], [422, 'workflow_invalid'])
  assert.match(body.detail, /ci\.yml:1:\d+/)
})

test('the pieces of a log stay in their attempt', async () => {
  const { admin } = service
  const path = await start()
  await (await mustClaim(admin)).report(...begun(), wrote('a\n'), ...jobEnded(), runEnded())
  const log = (await admin.get(`${path}/logs`)).text
  await admin.post(`${path}/rerun`, {})
  assert.equal((await admin.get(`${path}/logs`)).text, '')
  assert.equal((await admin.get(`${path}/logs?attempt=1`)).text, log)
  await (await mustClaim(admin)).report(runEnded())
})

const twoJobs = `
on: workflow_dispatch
jobs:
  good:
    runs-on: ubuntu-latest
    outputs: { word: '\${{ steps.say.outputs.word }}' }
    steps:
      - id: say
        run: echo "word=kept" >> "$GITHUB_OUTPUT"; echo good ran
  bad:
    needs: good
    runs-on: ubuntu-latest
    steps:
      - run: echo "got \${{ needs.good.outputs.word }} in $GITHUB_RUN_ATTEMPT"; test "$GITHUB_RUN_ATTEMPT" -ge 3
`

test('a run is rerun until it succeeds, each time only the failed jobs', async () => {
  await using server = await startService({ env: { SVC_RUNNER: 'on' } })
  const { admin } = server
  await pushFiles(admin, 'site', { '.svc/workflows/ci.yml': twoJobs })
  const { id } = await runToEnd(admin, 'site')
  const path = `/repos/site/workflows/${id}`
  for (const attempt of [2, 3]) {
    await admin.post(`${path}/rerun`, { jobs: 'failed' })
    const run = await endOf(admin, 'site', id)
    assert.deepEqual(
      [run.attempt, run.conclusion],
      [attempt, attempt === 3 ? 'success' : 'failure'],
    )
    const { text } = await admin.get(`${path}/logs`)
    assert.match(text, new RegExp(`got kept in ${attempt}`))
    assert.doesNotMatch(text, /good ran/)
    const jobs = run.jobs.map(({ id: job, conclusion }: { id: string; conclusion: string }) => [
      job,
      conclusion,
    ])
    assert.deepEqual(jobs[0], ['good', 'success'])
  }
})

test('a run whose commit no longer exists fails with the reason', { skip: onlyLocal }, async () => {
  await using server = await startService({ env: { SVC_RUNNER: 'on' } })
  const { admin } = server
  const commit = await pushFiles(admin, 'site', oneStep('true'))
  const { id } = await runToEnd(admin, 'site')
  const { path } = (await admin.get('/repos/site')).body
  await git('/', ['--git-dir', path, 'update-ref', '-d', 'refs/heads/main'])
  await rm(join(path, 'objects', commit.slice(0, 2), commit.slice(2)), { force: true })
  await git('/', ['--git-dir', path, 'repack', '-adq'])
  await git('/', ['--git-dir', path, 'prune', '--expire=now'])
  await admin.post(`/repos/site/workflows/${id}/rerun`, {})
  const run = await endOf(admin, 'site', id)
  assert.equal(run.conclusion, 'failure')
  assert.match(
    JSON.stringify(run),
    new RegExp(`commit ${commit} .*(gone|no longer in the repository)`),
  )
})
