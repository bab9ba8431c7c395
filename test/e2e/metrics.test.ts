// Tags: exhaustive
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { until } from '../support/condition.ts'
import { createProject, git, temporaryFolder } from '../support/git.ts'
import { parseMetrics, type Sample } from '../support/metrics-text.ts'
import { without } from '../support/programs.ts'
import { mustClaim, wholeRun } from '../support/run-by-hand.ts'
import { type Service, startService, startServiceWithSsh } from '../support/service.ts'
import { createSshUser } from '../support/ssh-user.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

test('metrics are in the text format of Prometheus, with types and descriptions', async () => {
  await using service = await startService()
  const answer = await service.admin.get('/metrics')
  assert.equal(answer.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8')
  const { families, samples } = parseMetrics(answer.text)
  for (const [name, { type, help }] of families) {
    assert.match(name, /^(svc|process|nodejs)_[a-z0-9_]+$/)
    assert.ok(help.length > 5, name)
    assert.equal(name.endsWith('_total'), type === 'counter', name)
  }
  const names = [...families.keys()]
  for (const expected of [
    'process_resident_memory_bytes',
    'process_cpu_seconds_total',
    'nodejs_eventloop_lag_p99_seconds',
    'svc_http_requests_total',
    'svc_git_operations_total',
    'svc_maintenance_runs_total',
    'svc_workflow_runs',
  ]) {
    assert.ok(names.includes(expected), expected)
  }
  for (const [name, value] of Object.entries({
    svc_repositories: 0,
    svc_pushes_unfinished: 0,
    svc_maintenance_due: 0,
    svc_build_info: 1,
    svc_maintenance_last_success_timestamp_seconds: 0,
  })) {
    assert.equal(oneOf(samples, name), value, name)
  }
  assert.ok(oneOf(samples, 'svc_disk_free_bytes') > 0)
})

test('only an admin reads metrics', async () => {
  await using service = await startService()
  const reader = await service.client({ permissions: ['repo:read'] })
  assert.equal((await reader.get('/metrics')).status, 403)
  assert.equal((await fetch(`${service.url}/metrics`)).status, 401)
})

test('requests are counted by route, never by text of a client', async () => {
  await using service = await startService()
  await service.admin.post('/repos', { name: 'site' })
  for (const name of ['site', 'a-b-c', 'x/y']) await service.admin.get(`/repos/${name}`)
  await fetch(`${service.url}/nowhere/${'z'.repeat(50)}?svc_secret`)
  const samples = await read(service)
  const requests = samples.filter(({ name }) => name === 'svc_http_requests_total')
  const counts = requests.map(({ labels, value }) => [
    labels.method,
    labels.route,
    labels.status,
    value,
  ])
  assert.deepEqual(
    counts.sort(),
    [
      ['GET', '/repos/:name', '200', 1],
      ['GET', '/repos/:name', '404', 1],
      ['GET', 'other', '404', 2],
      ['POST', '/repos', '201', 1],
    ].sort(),
  )
  const seconds = samples.find(
    ({ name, labels }) =>
      name === 'svc_http_request_duration_seconds_count' && labels.route === '/repos/:name',
  )
  assert.equal(seconds?.value, 2)
})

test('Git operations over both transports are counted by kind and outcome, and so are its processes', {
  skip: without('openssh'),
}, async () => {
  await using service = await startServiceWithSsh()
  await using project = await createProject()
  await using folder = await temporaryFolder()
  await using user = await createSshUser(service, service.admin)
  await service.admin.post('/repos', { name: 'site' })
  await service.admin.put('/repos/site/protections/branches/safe')
  await project.git('push', '--quiet', service.admin.remote('site'), 'HEAD:main')
  await git('/', ['clone', '--quiet', service.admin.remote('site'), join(folder.path, 'http')])
  await user.git(folder.path, 'clone', '--quiet', user.remote('site'), 'ssh')
  await user.git(project.path, 'push', '--quiet', user.remote('site'), 'HEAD:other')

  await until('all is counted', async () => {
    const samples = await read(service)
    const count = (kind: string, via: string) =>
      samples.find(
        ({ name, labels }) =>
          name === 'svc_git_operations_total' &&
          labels.kind === kind &&
          labels.via === via &&
          labels.outcome === 'done',
      )?.value
    return ['http', 'ssh'].every((via) =>
      ['ls-refs', 'fetch', 'push'].every((kind) => count(kind, via) === 1),
    )
  })
  const samples = await read(service)
  assert.equal(oneOf(samples, 'svc_repositories'), 1)
  // A push is looked at for workflows, which takes a git of its own.
  await until('no git is left', async () => {
    const processes = (await read(service)).filter(({ name }) => name === 'svc_git_processes')
    assert.deepEqual(
      processes.map(({ labels }) => labels.process),
      ['main', 'ssh'],
    )
    return processes.every(({ value }) => value === 0)
  })
})

test('workflow runs are counted while they wait and run', async () => {
  await using service = await startService()
  await pushFiles(service.admin, 'site', oneStep('true'))
  const counts = async () =>
    (await read(service))
      .filter(({ name }) => name === 'svc_workflow_runs')
      .map(({ labels, value }) => `${labels.status} ${value}`)
  assert.deepEqual(await counts(), ['queued 0', 'running 0'])
  for (let n = 0; n < 3; n++) await service.admin.post('/repos/site/workflows', {})
  const run = await mustClaim(service.admin)
  assert.deepEqual(await counts(), ['queued 2', 'running 1'])
  await run.report(...wholeRun())
  assert.deepEqual(await counts(), ['queued 2', 'running 0'])
})

async function read({ admin }: Service): Promise<Sample[]> {
  return parseMetrics((await admin.get('/metrics')).text).samples
}

function oneOf(samples: Sample[], wanted: string): number {
  const found = samples.filter(({ name }) => name === wanted)
  assert.equal(found.length, 1, wanted)
  return found[0]?.value ?? Number.NaN
}
