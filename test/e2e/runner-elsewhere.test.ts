import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { processesNaming } from '../support/processes.ts'
import { startRunner } from '../support/runner.ts'
import { startService } from '../support/service.ts'
import { endOf, logOf, oneStep, pushFiles, runToEnd } from '../support/workflow-site.ts'

test('a runner on another machine executes the runs of a server', async () => {
  await using site = await startSite()
  const { admin } = site.service
  await pushFiles(admin, 'site', { ...oneStep('cat greeting.txt'), 'greeting.txt': 'hello\n' })
  await using _runner = await site.startRunner()
  const run = await runToEnd(admin, 'site')
  assert.equal(run.conclusion, 'success')
  assert.match(await logOf(admin, 'site', run.id), /^hello$/m)
})

test('a run that its runner releases is claimed by the next one', async () => {
  await using site = await startSite()
  const { admin } = site.service
  await pushFiles(admin, 'site', oneStep('echo begun; sleep 4714001'))
  const { body } = await admin.post('/repos/site/workflows', {})
  const first = await site.startRunner()
  await until('the step runs', () => processesNaming('4714001').length > 0)
  first.kill('SIGTERM')
  assert.equal(await first.ended(), 0)
  await first[Symbol.asyncDispose]()
  assert.equal((await admin.get(`/repos/site/workflows/${body.id}`)).body.status, 'queued')
  await using _second = await site.startRunner()
  await until('the step runs again', () => processesNaming('4714001').length > 0)
  await admin.post(`/repos/site/workflows/${body.id}/cancel`)
  assert.equal((await endOf(admin, 'site', body.id)).conclusion, 'cancelled')
  assert.deepEqual(processesNaming('4714001'), [])
})

test('a token without the permission is rejected in one line', async () => {
  await using site = await startSite()
  const { token } = await site.service.client({ permissions: ['repo:read'] })
  await using runner = await startRunner({ server: site.service.url, token })
  assert.equal(await runner.ended(), 1)
  assert.match(runner.log(), /svc: The token may not run workflows: .*--permission runner\n$/)
})

test('a server killed during a run continues it after its restart', exhaustive, async () => {
  await using site = await startSite()
  const { admin, dataDir } = site.service
  await pushFiles(
    admin,
    'site',
    oneStep('echo begun; for n in $(seq 40); do echo "line $n"; sleep 0.05; done'),
  )
  await using _runner = await site.startRunner()
  const { body } = await admin.post('/repos/site/workflows', {})
  const path = `/repos/site/workflows/${body.id}`
  await until('it has begun', async () => /begun/.test((await admin.get(`${path}/logs`)).text))
  const env = { ...site.env, SVC_PORT: new URL(site.service.url).port }
  await site.service.end('SIGKILL')
  await using _again = await startService({ dataDir, env })
  const run = await endOf(admin, 'site', body.id)
  assert.equal(run.conclusion, 'success')
  const lines = (await logOf(admin, 'site', run.id)).match(/\bline \d+$/gm)
  assert.deepEqual(
    lines,
    Array.from({ length: 40 }, (_, n) => `line ${n + 1}`),
  )
})

/** A server without a runner of its own. */
async function startSite() {
  const env = { SVC_RUNNER: 'off' }
  const service = await startService({ env })
  const { token } = await service.client({ permissions: ['runner'] })
  return {
    service,
    env: { ...env, SVC_ADMIN_TOKEN: service.adminToken },
    startRunner: () => startRunner({ server: service.url, token }),
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  }
}
