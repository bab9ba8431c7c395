// Tags: exhaustive
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { faultSteps } from '#base/fault-points.ts'
import { until } from '../support/condition.ts'
import {
  assertRecovered,
  begin,
  type HostileSite,
  runEventsOf,
  startHostileSite,
} from '../support/hostile-site.ts'
import { without } from '../support/programs.ts'
import { sampleOf } from '../support/rounds.ts'
import { startRunner } from '../support/runner.ts'
import { endOf, pushFiles } from '../support/workflow-site.ts'

const options = { skip: without('bubblewrap'), timeout: 600_000 }
const steps = faultSteps.filter((step) => step.startsWith('run.'))

/** The outcome of a run whose server was killed at a fault point: with its own runner, and with one on another machine. */
const endings: Record<string, { own: string; elsewhere?: string }> = {
  'run.queued': { own: 'queued running completed', elsewhere: 'queued running completed' },
  // A runner elsewhere has not heard of the run, which waits for the end of the lease.
  'run.claimed': { own: 'queued running queued running completed' },
  'run.begun': {
    own: 'queued running queued running completed',
    elsewhere: 'queued running completed',
  },
  'run.reported': {
    own: 'queued running queued running completed',
    elsewhere: 'queued running completed',
  },
  'run.ended': { own: 'queued running completed', elsewhere: 'queued running completed' },
  'run.taken-back': { own: 'queued running queued running completed' },
}

describe('a server that is killed', { ...options, concurrency: 2 }, () => {
  for (const step of sampleOf(steps, 2)) {
    const { own, elsewhere } = endings[step] ?? {}
    assert.ok(own, `no expectation for ${step}`)
    test(`at ${step} completes the run after its restart`, async () => {
      await using site = await prepare()
      await dieAt(site, step)
      await site.startAgain()
      await assertOneRun(site, own)
      await assertRecovered(site)
    })
    if (!elsewhere) continue
    test(`at ${step} does not interrupt a runner on another machine`, async () => {
      await using site = await prepare({ SVC_RUNNER: 'off' })
      const { body } = await site.admin().post('/tokens', { name: 'r', permissions: ['runner'] })
      const { url } = site.service()
      await using _runner = await startRunner({ server: url, token: body.token })
      const port = { SVC_PORT: new URL(url).port }
      await dieAt(site, step, port)
      await site.startAgain(port)
      await assertOneRun(site, elsewhere)
    })
  }
})

async function prepare(env: Record<string, string> = {}): Promise<HostileSite> {
  await using stack = new AsyncDisposableStack()
  const site = stack.use(await startHostileSite(env))
  // Two of them, so that one has ended before the run has.
  const text = "steps: [{ run: 'echo begun; sleep 0.5; echo done' }, { run: sleep 1 }]"
  await pushFiles(site.admin(), 'site', { '.svc/workflows/ci.yml': text })
  stack.move()
  return site
}

async function dieAt(site: HostileSite, step: string, more: Record<string, string> = {}) {
  const isOfStart = step === 'run.taken-back'
  if (isOfStart) await begin(site, 'site', 'begun')
  await site.service().end(isOfStart ? 'SIGKILL' : 'SIGTERM')
  const starting = site.startAgain({ SVC_FAULT_POINT: step, ...more })
  if (isOfStart) return assert.rejects(starting, /did not start/)
  const service = await starting
  // The connection breaks when the server dies.
  await service.admin.post('/repos/site/workflows', {}).catch(() => {})
  await until('it was killed', () => service.hasEnded())
  assert.equal(await service.end('SIGKILL'), null)
}

async function assertOneRun(site: HostileSite, events: string): Promise<void> {
  const { body: runs } = await site.admin().get('/repos/site/workflows')
  assert.equal(runs.length, 1)
  const run = await endOf(site.admin(), 'site', runs[0].id)
  assert.deepEqual([run.conclusion, run.attempt], ['success', 1])
  assert.equal(run.result.steps[0].output, 'begun\ndone\n')
  assert.equal(runEventsOf(site, run.id), events)
}
