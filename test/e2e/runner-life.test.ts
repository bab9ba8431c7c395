import assert from 'node:assert/strict'
import { readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { startSvc } from '../support/command.ts'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, temporaryFolder } from '../support/git.ts'
import { commandOf, familyOf, processesNaming } from '../support/processes.ts'
import { endOf, outputOf, planFor, startRunner } from '../support/runner.ts'
import { type ServedRun, startRunnerServer } from '../support/runner-server.ts'
import { startRunnerSite } from '../support/runner-site.ts'

test('a stopped runner releases its runs and leaves nothing', async () => {
  await using site = await startRunnerSite()
  const run = await site.queue('steps: [{ run: echo begun; sleep 4712001 }]')
  await hasBegun(run)
  site.runner.kill('SIGTERM')
  assert.equal(await site.runner.ended(), 0)
  assert.deepEqual(run.releases, [{ reason: 'The runner is stopping.', isLoss: false }])
  assert.equal(endOf(run.entries), undefined)
  assert.deepEqual(processesNaming('4712001'), [])
  assert.deepEqual(await leftIn(site.runner.folder), [])
  assert.deepEqual(site.server.faults, [])
})

test('a second signal ends a runner at once, and its steps with it', async () => {
  await using site = await startRunnerSite()
  const run = await site.queue('steps: [{ run: echo begun; sleep 4712002 }]')
  await hasBegun(run)
  // Handing back takes a while.
  site.server.setMishap(({ path }) => (path.endsWith('/release') ? 'silence' : undefined))
  site.runner.kill('SIGINT')
  await until('it hands the run back', () =>
    site.runner.log().includes('run returned to the queue'),
  )
  site.runner.kill('SIGINT')
  assert.equal(await site.runner.ended(), 130)
  assert.deepEqual(processesNaming('4712002'), [])
})

test('the steps of a killed runner end, and the next one cleans up', exhaustive, async () => {
  await using folder = await temporaryFolder()
  await using server = await startRunnerServer({ leaseSeconds: 2 })
  await using project = await createProject()
  const wanted = { server: server.url, token: server.token, folder: join(folder.path, 'runner') }
  await using first = await startRunner(wanted)
  const [plan, pack] = await planFor(
    project,
    'steps: [{ run: echo begun; touch here; (setsid sleep 4712003 &); sleep 4712003 }]',
  )
  const run = server.queue(plan, pack)
  await hasBegun(run)
  first.kill('SIGKILL')
  await first.ended()
  await until('no process is left', () => processesNaming('4712003').length === 0)
  assert.notDeepEqual(await leftIn(wanted.folder), [])
  run.plan.files = [{ path: '.svc/workflows/ci.yml', text: 'steps: [{ run: echo again; ls }]' }]
  await using second = await startRunner(wanted)
  await until('the run has ended', () => endOf(run.entries))
  assert.equal(outputOf(run.entries), 'again\nreadme.txt\n')
  assert.ok(run.claims >= 2)
  second.kill('SIGTERM')
  assert.equal(await second.ended(), 0)
  assert.deepEqual(await leftIn(wanted.folder), [])
})

test('a server that is down for a while misses nothing', exhaustive, async () => {
  await using site = await startRunnerSite()
  const run = await site.queue(
    'steps: [{ run: "for n in $(seq 100); do echo $n; sleep 0.01; done" }]',
  )
  await until('it has begun', () => outputOf(run.entries) !== '')
  await site.server.vanish()
  await until('the runner has noticed', () => site.runner.log().includes('cannot be reached'))
  await site.server.comeBack()
  await until('the run has ended', () => endOf(run.entries))
  const lines = Array.from({ length: 100 }, (_, n) => `${n + 1}\n`)
  assert.equal(outputOf(run.entries), lines.join(''))
  const next = await site.queue('steps: [{ run: echo next }]')
  await until('the next run has ended', () => endOf(next.entries))
  assert.deepEqual(site.server.faults, [])
})

test('a run whose server stays down ends with its lease', exhaustive, async () => {
  await using site = await startRunnerSite({ server: { leaseSeconds: 1 } })
  const run = await site.queue('steps: [{ run: echo begun; sleep 4712004 }]')
  await hasBegun(run)
  await site.server.vanish()
  await until('its step has ended', () => processesNaming('4712004').length === 0)
  await until('the runner says so', () => site.runner.log().includes('was not reached for 1 s'))
})

test('a runner waits for its server to start', async () => {
  await using server = await startRunnerServer()
  await server.vanish()
  await using runner = await startRunner({ server: server.url, token: server.token })
  await until('it says so', () => /cannot be reached; will retry/.test(runner.log()))
  await server.comeBack()
  await until('it has claimed', () => server.claims.length > 0)
})

test('a runner that waits for its server stops on a signal', async () => {
  await using server = await startRunnerServer()
  await server.vanish()
  await using runner = await startRunner({ server: server.url, token: server.token })
  await until('it waits', () => runner.log().includes('cannot be reached'))
  runner.kill('SIGTERM')
  assert.equal(await runner.ended(), 0)
})

test('a runner that cannot work releases its runs as lost', async () => {
  await using site = await startRunnerSite()
  await until('it has claimed', () => site.server.claims.length > 0)
  const runs = join(site.runner.folder, 'runs')
  await rm(runs, { recursive: true })
  await writeFile(runs, 'no folder')
  const run = await site.queue('steps: [{ run: echo never }]')
  const [release] = await until('it is handed back', () => run.releases.length > 0 && run.releases)
  assert.equal(release?.isLoss, true)
  assert.match(release?.reason ?? '', /^The runner failed: .*not a directory/)
})

test('two runners cannot share a folder', async () => {
  await using server = await startRunnerServer()
  await using first = await startRunner({ server: server.url, token: server.token })
  await until('it has claimed', () => server.claims.length > 0)
  const wanted = { server: server.url, token: server.token, folder: first.folder }
  await using second = await startRunner(wanted)
  assert.equal(await second.ended(), 1)
  assert.match(second.log(), /^svc: Another runner uses .*; choose .* --folder\.\n$/)
})

test('a foreign folder is not changed', async () => {
  await using server = await startRunnerServer()
  await using folder = await temporaryFolder()
  await writeFile(join(folder.path, 'letter.txt'), 'Dear Ada')
  await using runner = await startRunner({ ...server, server: server.url, folder: folder.path })
  assert.equal(await runner.ended(), 1)
  assert.match(
    runner.log(),
    /^svc: .* is neither empty nor the directory of a runner; choose another one with --folder\.\n$/,
  )
  assert.deepEqual(await readdir(folder.path), ['letter.txt'])
})

test('invalid options are reported in one line', exhaustive, async () => {
  await using server = await startRunnerServer()
  await using folder = await temporaryFolder()
  const cases: [string[], Record<string, string>, RegExp][] = [
    [['--server', server.url], {}, /A token is required: set SVC_RUNNER_TOKEN/],
    [['--server', server.url, '--token', `${server.token}x`], {}, /The token is mistyped/],
    [['--server', 'ftp://there'], {}, /--server: it takes the http or https address/],
    [['--server', server.url, '--jobs', '0'], {}, /--jobs: it takes a whole number from 1 to 1000/],
    [['--server', server.url], { SVC_SANDBOX: 'perhaps' }, /SVC_SANDBOX: "perhaps"/],
    [['--server', `${server.url}/elsewhere`], {}, /has no runner API\. Check the address/],
    [['--server', server.url], { SVC_RUNNER_TOKEN: refusedToken }, /does not accept the token/],
  ]
  for (const [args, env, said] of cases) {
    const given = { SVC_RUNNER_TOKEN: server.token, ...env }
    if (said.source.includes('required')) Reflect.deleteProperty(given, 'SVC_RUNNER_TOKEN')
    const all = ['runner', '--folder', join(folder.path, 'runner'), ...args]
    const { code, err } = await startSvc(all, { SVC_LOG_LEVEL: 'error', ...given }).ended
    assert.match(err, /^svc: .*\n$/)
    assert.match(err, said)
    assert.ok(code === 1 || code === 2)
  }
})

test('the token is visible neither in the process list, nor in logs, nor to steps', async () => {
  await using server = await startRunnerServer()
  await using project = await createProject()
  const { url, token } = server
  await using runner = await startRunner({ server: url, token: '', args: ['--token', '-'] })
  runner.stdin.end(`${token}\n`)
  const [plan, pack] = await planFor(
    project,
    'steps: [{ run: "env; cat /proc/*/environ /proc/*/cmdline || true; echo; exec sleep 4712005" }]',
  )
  const run = server.queue(plan, pack)
  await until('the step is there', () => processesNaming('4712005').length > 0)
  const commands = familyOf(runner.pid).map(commandOf).join('\n')
  for (const text of [commands, runner.log(), JSON.stringify(run.entries)]) {
    assert.ok(!text.includes(token) && !text.includes(run.token))
  }
})

// Well-formed, but unknown.
const refusedToken = `svc_${'a'.repeat(30)}1yLcDB`

function hasBegun(run: ServedRun) {
  return until('it has begun', () => outputOf(run.entries) === 'begun\n')
}

/** What runs have left in a runner's folder. */
async function leftIn(folder: string): Promise<string[]> {
  const all = await Promise.all(
    ['workspaces', 'runs'].map((name) => readdir(join(folder, name)).catch(() => [])),
  )
  return all.flat()
}
