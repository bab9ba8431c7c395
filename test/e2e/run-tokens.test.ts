import assert from 'node:assert/strict'
import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { git, temporaryFolder } from '../support/git.ts'
import { begun, claim, mustClaim, runEnded, wholeRun, wrote } from '../support/run-by-hand.ts'
import { startRunner } from '../support/runner.ts'
import { type Client, type Service, startService } from '../support/service.ts'
import { endOf, logOf, oneStep, pushFiles, runToEnd } from '../support/workflow-site.ts'

let service: Service

before(async () => {
  service = await startService()
  await pushFiles(service.admin, 'site', oneStep('true'))
})

after(() => service[Symbol.asyncDispose]())

async function held() {
  await service.admin.post('/repos/site/workflows', {})
  return mustClaim(service.admin)
}

test('the token of a run is valid only for that run', async () => {
  const [first, second] = [await held(), await held()]
  for (const [method, verb, body] of [
    ['GET', 'source'],
    ['GET', 'orders'],
    ['POST', 'report', { first: 0, entries: wholeRun() }],
    ['POST', 'release', { reason: 'x', isLoss: true }],
  ] as const) {
    const answer = await first.own.call(method, `${second.path}/${verb}`, body)
    assert.deepEqual([answer.status, answer.body.code], [404, 'run_not_found'], verb)
  }
  for (const path of ['/repos', '/repos/site', '/repos/site/workflows', '/tokens', '/keys']) {
    const answer = await first.own.get(path)
    assert.deepEqual([answer.status, answer.body.code], [403, 'permission_missing'], path)
  }
  const claiming = { name: 'x', version: '1', labels: [], isolation: 'none', waitSeconds: 0 }
  assert.equal((await first.own.post('/runner/claim', claiming)).status, 403)
  await assert.rejects(git('/', ['ls-remote', first.own.remote('site')]), /valid only for that run/)
  for (const run of [first, second]) await run.report(...wholeRun())
})

test('the token of a run expires with the run', async () => {
  const run = await held()
  await run.report(...wholeRun())
  for (const path of [`${run.path}/orders`, `${run.path}/source`, '/repos'])
    assert.equal((await run.own.get(path)).status, 401, path)
})

test('other tokens cannot report for a run, and only those of runners can claim', async () => {
  const run = await held()
  const plain = await service.client({ permissions: ['repo:write', 'workflow:trigger'] })
  const runner = await service.client({ permissions: ['runner'] })
  for (const who of [plain, runner, service.admin]) {
    assert.equal((await who.get(`${run.path}/orders`)).status, 403)
    assert.equal((await who.post(`${run.path}/report`, { first: 0, entries: [] })).status, 403)
  }
  await assert.rejects(claim(plain, { waitSeconds: 0 }), /permission_missing/)
  for (const path of ['/repos', '/repos/site', '/repos/site/workflows'])
    assert.equal((await runner.get(path)).status, 403, path)
  assert.equal(await claim(runner, { waitSeconds: 0 }), undefined)
  await run.report(...wholeRun())
})

test('entries are accepted once and in order, even if repeated', async () => {
  const run = await held()
  const path = `/repos/site/workflows/${run.plan.runId}`
  await run.report(...begun(), wrote('one\n'))
  const report = (first: number, entries: unknown[]) =>
    run.own.post(`${run.path}/report`, { first, entries })
  assert.equal((await report(4, [wrote('one\n'), wrote('two\n')])).body.next, 6)
  // A gap is not filled with what comes after it.
  assert.equal((await report(9, [wrote('nine\n')])).body.next, 6)
  const twice = await Promise.all([report(6, [wrote('three\n')]), report(6, [wrote('three\n')])])
  // One that has lost against the other is asked for the same again.
  const [one, other] = twice.map(({ body }) => body.next).sort()
  assert.ok(other === 7 && (one === 6 || one === 7), `${one} ${other}`)
  assert.equal((await service.admin.get(`${path}/logs?step=0`)).text, 'one\ntwo\nthree\n')
  assert.equal((await report(7, [{ kind: 'strange' }])).status, 400)
  assert.equal((await report(7, [runEnded()])).status, 200)
})

test('a run continues when its repository is renamed, and ends when it is deleted', async () => {
  await pushFiles(service.admin, 'before', oneStep('true'))
  await service.admin.post('/repos/before/workflows', {})
  const run = await mustClaim(service.admin)
  await run.report(...begun())
  await service.admin.patch('/repos/before', { name: 'after' })
  const source = await fetch(`${service.url}${run.path}/source`, {
    headers: { authorization: `Bearer ${run.own.token}` },
  })
  // A line that describes the pack precedes it.
  const [, pack = ''] = Buffer.from(await source.arrayBuffer())
    .toString('latin1')
    .split('\n', 2)
  assert.match(pack, /^PACK/)
  await run.report(wrote('still there\n'))
  const path = `/repos/after/workflows/${run.plan.runId}`
  assert.equal((await service.admin.get(path)).body.repoName, 'after')
  const orders = run.own.get(`${run.path}/orders?wait=30`)
  const deleted = service.admin.delete('/repos/after')
  assert.deepEqual((await orders).body, { cancel: 'The repository was deleted.', kill: true })
  await run.report(runEnded('cancelled', 'The repository was deleted.'))
  assert.equal((await deleted).status, 204)
  assert.equal((await run.own.get(`${run.path}/orders`)).status, 401)
})

test('a run whose secrets cannot be opened fails with that reason; one without secrets runs', async () => {
  await using folder = await temporaryFolder()
  const dataDir = join(folder.path, 'data')
  let adminToken = ''
  {
    await using server = await startService({ dataDir })
    adminToken = server.adminToken
    for (const name of ['secret', 'plain']) await pushFiles(server.admin, name, oneStep('true'))
    await server.admin.put('/repos/secret/secrets/TOKEN', { value: 'hush-hush' })
    await server.end('SIGTERM')
  }
  await rename(join(dataDir, 'encryption.key'), join(folder.path, 'key'))
  await using server = await startService({ dataDir, env: { SVC_ADMIN_TOKEN: adminToken } })
  const { body } = await server.admin.post('/repos/secret/workflows', {})
  await server.admin.post('/repos/plain/workflows', {})
  const run = await mustClaim(server.admin)
  assert.equal(run.plan.repository.name, 'plain')
  const failed = (await server.admin.get(`/repos/secret/workflows/${body.id}`)).body
  assert.deepEqual([failed.status, failed.conclusion], ['completed', 'failure'])
  assert.match(failed.fault, /could not start: The server has no key to encrypt secrets with/)
  assert.doesNotMatch(await logOf(server.admin, 'secret', body.id), /hush/)
  await rm(join(folder.path, 'key'))
})

test('a second runner claims the runs with its labels, the other one the rest', async () => {
  await using server = await startService({ env: { SVC_RUNNER: 'on' } })
  const { admin } = server
  const { token } = await server.client({ permissions: ['runner'] })
  const job = (labels: string) => `
on: workflow_dispatch
jobs: { one: { runs-on: ${labels}, steps: [{ run: 'echo "ran on $RUNNER_NAME"' }] } }
`
  await pushFiles(admin, 'site', {
    '.svc/workflows/gpu.yml': job('[self-hosted, gpu]'),
    '.svc/workflows/any.yml': job('ubuntu-latest'),
  })
  const { body: waiting } = await admin.post('/repos/site/workflows', { files: ['gpu.yml'] })
  const any = await runToEnd(admin, 'site', { files: ['any.yml'] })
  assert.equal(outputOf(any), 'ran on local\n')
  assert.equal(await statusOf(admin, waiting.id), 'queued')
  const args = ['--label', 'gpu', '--name', 'den']
  await using _runner = await startRunner({ server: server.url, token, args })
  assert.equal(outputOf(await endOf(admin, 'site', waiting.id)), 'ran on den\n')
})

function outputOf(run: { result: { steps: { output: string }[] } }): string | undefined {
  return run.result.steps[0]?.output
}

async function statusOf(client: Client, id: string): Promise<string> {
  return (await client.get(`/repos/site/workflows/${id}`)).body.status
}
