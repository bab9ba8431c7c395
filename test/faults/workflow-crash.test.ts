// Tags: exhaustive
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../support/condition.ts'
import {
  assertRecovered,
  begin,
  type HostileSite,
  runEventsOf,
  runOf,
  startHostileSite,
  untilWritten,
} from '../support/hostile-site.ts'
import { processesInWorkspaces, processesNaming, signal } from '../support/processes.ts'
import { without } from '../support/programs.ts'
import { createRandom } from '../support/random.ts'
import { toRounds } from '../support/rounds.ts'
import { createClient } from '../support/service.ts'
import { openTables } from '../support/tables.ts'
import { endOf, logOf, oneStep, pushFiles } from '../support/workflow-site.ts'

const options = { skip: without('bubblewrap'), timeout: 600_000 }
const seed = Number(process.env.SVC_CRASH_SEED ?? Date.now() % 1_000_000)
const rounds = toRounds(2)

// Long enough to be killed in the middle of, short enough to be waited for.
const passing = 'echo begun; (setsid sleep 4716001 &); sleep 2; echo done'
const endless = 'echo begun; (trap "" TERM HUP; setsid sleep 4716002 &); sleep 4716002'

test('a run of a server killed during a step is queued again, and completes', options, async () => {
  await using site = await startSite(passing)
  const id = await begin(site, 'site', 'begun')
  await site.service().end('SIGKILL')
  await untilEnded(site)
  await site.startAgain()
  const run = await endOf(site.admin(), 'site', id)
  assert.deepEqual([run.conclusion, run.attempt, run.fault], ['success', 1, null])
  const log = await logOf(site.admin(), 'site', id)
  assert.match(
    log,
    /^begun\nThe runner local-\w+ was lost\. The run is queued again\.\n[\s\S]*^begun\ndone\n/m,
  )
  assert.equal(run.result.steps[0].output, 'begun\ndone\n')
  await assertRecovered(site)
})

test('a run of a server killed twice during a step fails for that reason', options, async () => {
  await using site = await startSite(endless)
  const id = await begin(site, 'site', 'begun')
  await site.service().end('SIGKILL')
  await site.startAgain()
  await untilWritten(site, 'site', id, 'queued again')
  await untilWritten(site, 'site', id, 'queued again.\nSandbox')
  await untilStepRuns(site, id)
  await site.service().end('SIGKILL')
  await untilEnded(site)
  await site.startAgain()
  const run = await endOf(site.admin(), 'site', id)
  assert.equal(run.conclusion, 'failure')
  assert.match(run.fault, /^The runner local-\w+ was lost\. This was the second time\.$/)
  assert.deepEqual(
    run.result.steps.map(({ conclusion }: { conclusion: string }) => conclusion),
    ['cancelled'],
  )
  await assertRecovered(site)
})

test(
  'a run of a runner killed during a step is queued again, and then fails',
  options,
  async () => {
    await using site = await startSite(endless)
    const id = await begin(site, 'site', 'begun')
    signal(site.runnerPid() ?? 0, 'SIGKILL')
    await untilWritten(site, 'site', id, 'queued again.\nSandbox')
    await untilStepRuns(site, id)
    signal(site.runnerPid() ?? 0, 'SIGKILL')
    const run = await endOf(site.admin(), 'site', id)
    assert.equal(run.conclusion, 'failure')
    assert.match(run.fault, /^The runner local-\w+ was lost\. This was the second time\.$/)
    await untilEnded(site)
    await assertRecovered(site)
  },
)

test('a run of a runner killed during a step is completed by the next one', options, async () => {
  await using site = await startSite(passing)
  const id = await begin(site, 'site', 'begun')
  signal(site.runnerPid() ?? 0, 'SIGKILL')
  const run = await endOf(site.admin(), 'site', id)
  assert.deepEqual([run.conclusion, run.result.steps[0].output], ['success', 'begun\ndone\n'])
  await assertRecovered(site)
})

test(
  'a server stopped during a step releases the run, which does not count as a loss',
  options,
  async () => {
    await using site = await startSite(passing)
    const id = await begin(site, 'site', 'begun')
    for (let round = 0; round < 3; round++) {
      assert.equal(await site.service().end('SIGTERM'), 0)
      assert.deepEqual(processesInWorkspaces(site.dataDir), [])
      assert.deepEqual(rowOf(site, id), { status: 'queued', losses: 0 })
      await site.startAgain()
      await untilStepRuns(site, id)
    }
    const run = await endOf(site.admin(), 'site', id)
    assert.deepEqual([run.conclusion, run.result.steps[0].output], ['success', 'begun\ndone\n'])
    await assertRecovered(site)
  },
)

test(
  'a second signal ends the server and all steps at once; the next one continues the run',
  options,
  async () => {
    await using site = await startSite(passing)
    const id = await begin(site, 'site', 'begun')
    signal(site.runnerPid() ?? 0, 'SIGSTOP')
    const ended = site.service().end('SIGTERM')
    await until('it stops', () => site.service().log().includes('a second signal'))
    signal(site.service().pid, 'SIGTERM')
    assert.equal(await ended, 143)
    await untilEnded(site)
    await site.startAgain()
    const run = await endOf(site.admin(), 'site', id)
    assert.deepEqual([run.conclusion, run.result.steps[0].output], ['success', 'begun\ndone\n'])
    await assertRecovered(site)
  },
)

test('deleting a repository ends its runs first', options, async () => {
  await using site = await startSite(`trap "" TERM; ${endless}`)
  await begin(site, 'site', 'begun')
  assert.equal((await site.admin().delete('/repos/site')).status, 204)
  assert.deepEqual(processesNaming('4716002'), [])
  // The workspace itself may still be removed later.
  await until('its processes have ended', () => processesInWorkspaces(site.dataDir).length === 0)
  assert.equal((await site.admin().get('/repos/site/workflows')).status, 404)
  // The runner has reported the end before the timeout of the server.
  assert.doesNotMatch(site.service().log(), /report","status":401/)
  await assertRecovered(site)
})

test('a repository is deleted even if the runner does not respond', options, async () => {
  await using site = await startSite(endless)
  await begin(site, 'site', 'begun')
  const runner = site.runnerPid() ?? 0
  signal(runner, 'SIGSTOP')
  assert.equal((await site.admin().delete('/repos/site')).status, 204)
  signal(runner, 'SIGCONT')
  await untilEnded(site)
  await assertRecovered(site)
})

test('a run that is cancelled during a step ends, except for always() steps', options, async () => {
  await using site = await startHostileSite()
  const text = `steps: [{ name: Endless, run: '${endless.replaceAll("'", "''")}' }, { if: cancelled(), run: echo last words }, { run: echo never }]`
  await pushFiles(site.admin(), 'site', { '.svc/workflows/ci.yml': text })
  const id = await begin(site, 'site', 'begun')
  assert.equal((await site.admin().post(`/repos/site/workflows/${id}/cancel`)).status, 202)
  const run = await endOf(site.admin(), 'site', id)
  assert.deepEqual([run.conclusion, run.fault], ['cancelled', 'Cancelled by admin.'])
  const shown = run.result.steps.map(({ conclusion, output }: Record<string, string>) => [
    conclusion,
    output,
  ])
  assert.deepEqual(shown, [
    ['cancelled', 'begun\n'],
    ['success', 'last words\n'],
    ['skipped', ''],
  ])
  await assertRecovered(site)
})

test('a run outlives the token that started it', options, async () => {
  await using site = await startSite(passing)
  const { body } = await site.admin().post('/tokens', {
    name: 'brief',
    username: 'brief',
    permissions: ['admin'],
  })
  const client = createClient(site.service().url, body.token)
  const { body: started } = await client.post('/repos/site/workflows', {})
  await untilWritten(site, 'site', started.id, '\nbegun\n')
  assert.equal((await site.admin().delete(`/tokens/${body.id}`)).status, 204)
  const run = await endOf(site.admin(), 'site', started.id)
  assert.deepEqual([run.conclusion, run.actor], ['success', 'brief'])
})

test(`runs complete despite kills of any process at any time (SVC_CRASH_SEED=${seed})`, {
  ...options,
  timeout: 60_000 + rounds * 20_000,
}, async (t) => {
  const random = createRandom(seed)
  await using site = await startSite('echo begun; sleep 0.3; echo done')
  const ids: string[] = []
  for (let round = 0; round < rounds; round++) {
    for (let n = random.below(3); n >= 0; n--) {
      ids.push((await site.admin().post('/repos/site/workflows', {})).body.id)
    }
    const victim = random.pick(['server', 'server', 'runner', 'both'])
    await sleep(random.below(1500))
    const runner = site.runnerPid()
    t.diagnostic(`kills the ${victim}`)
    if (victim !== 'server' && runner !== undefined) signal(runner, 'SIGKILL')
    if (victim === 'runner') continue
    await site.service().end('SIGKILL')
    await site.startAgain()
  }
  for (const id of ids) {
    const run = await endOf(site.admin(), 'site', id)
    if (run.conclusion === 'success') {
      assert.equal(run.result.steps[0].output, 'begun\ndone\n')
    } else {
      assert.match(run.fault, /^The runner local-\w+ was lost\. This was the second time\.$/)
    }
    // The states of a run are in a possible order.
    assert.match(runEventsOf(site, id), /^(queued running ){1,4}completed$/)
  }
  await untilEnded(site)
  await assertRecovered(site)
})

async function startSite(script: string): Promise<HostileSite> {
  await using stack = new AsyncDisposableStack()
  const site = stack.use(await startHostileSite())
  await pushFiles(site.admin(), 'site', oneStep(script))
  stack.move()
  return site
}

function untilEnded(site: HostileSite) {
  return until(
    'no process of a step is left',
    () => processesInWorkspaces(site.dataDir).length === 0,
  )
}

function untilStepRuns(site: HostileSite, id: string) {
  return until(
    'the step runs',
    async () => (await runOf(site, 'site', id)).steps?.[0]?.status === 'running',
  )
}

function rowOf(site: HostileSite, id: string) {
  using tables = openTables(site.dataDir)
  const row = tables.rows('runs').find((one) => one.id === id)
  return { status: row?.status, losses: row?.losses }
}
