// Tags: exhaustive
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { createLog } from '#base/log.ts'
import { Sensitive } from '#base/sensitive.ts'
import { readSettings } from '#config/settings.ts'
import { createRunnerProcess, toOrders } from '#workflows/runners/runner-process.ts'
import { until } from '../support/condition.ts'
import { createProject, temporaryFolder } from '../support/git.ts'
import { commandOf, processesNaming } from '../support/processes.ts'
import { endOf, outputOf, planFor } from '../support/runner.ts'
import { startRunnerServer } from '../support/runner-server.ts'

test('the runner of a server is started when there is something to run', async () => {
  await using site = await startSite()
  assert.equal(site.runner.pid(), undefined)
  const run = await site.queue('steps: [{ run: echo here }]')
  site.runner.wake()
  site.runner.wake()
  await until('the run has ended', () => endOf(run.entries))
  assert.equal(outputOf(run.entries), 'here\n')
  await site.runner.stop(5000)
  assert.equal(site.runner.pid(), undefined)
})

test("the runner's secret is in neither its command line nor its environment", async () => {
  await using site = await startSite()
  site.runner.wake()
  await until('it has claimed', () => site.server.claims.length > 0)
  const pid = site.runner.pid() ?? 0
  const seen = commandOf(pid) + (await readFile(`/proc/${pid}/environ`, 'utf8'))
  assert.match(seen, /runner-main/)
  assert.ok(!seen.includes(site.server.token))
})

test('a killed runner is started again, and its run repeated', async () => {
  await using site = await startSite({ leaseSeconds: 1 })
  const run = await site.queue('steps: [{ run: echo begun; sleep 4713001 }]')
  site.runner.wake()
  await until('the step runs', () => processesNaming('4713001').length > 0)
  run.plan.files = [{ path: '.svc/workflows/ci.yml', text: 'steps: [{ run: echo again }]' }]
  process.kill(site.runner.pid() ?? 0, 'SIGKILL')
  await until('the run has ended', () => endOf(run.entries))
  assert.equal(outputOf(run.entries), 'again\n')
  assert.deepEqual(processesNaming('4713001'), [])
})

test('when the server stops, runs are released', async () => {
  await using site = await startSite()
  const run = await site.queue('steps: [{ run: echo begun; sleep 4713002 }]')
  site.runner.wake()
  await until('the step runs', () => processesNaming('4713002').length > 0)
  await site.runner.stop(10_000)
  assert.deepEqual(run.releases, [{ reason: 'The runner is stopping.', isLoss: false }])
  assert.deepEqual(processesNaming('4713002'), [])
})

test('when the server has exited, the runner and its steps end', async () => {
  await using site = await startSite()
  const child = spawn(process.execPath, [program], { stdio: ['pipe', 'ignore', 'ignore'] })
  const ended = once(child, 'exit')
  child.stdin.write(`${JSON.stringify(toOrders(site.options))}\n`)
  const run = await site.queue('steps: [{ run: echo begun; sleep 4713003 }]')
  await until('the step runs', () => processesNaming('4713003').length > 0)
  // As the system does for a server that is killed.
  child.stdin.destroy()
  await ended
  assert.deepEqual(processesNaming('4713003'), [])
  assert.deepEqual(await readdir(join(site.dataDir, 'runner/runs')), [])
  assert.equal(endOf(run.entries), undefined)
})

const program = fileURLToPath(new URL('../../src/runner-main.ts', import.meta.url))

type SiteOptions = { leaseSeconds?: number }

/** A server that hands out runs, and a runner process that is not started yet. */
async function startSite({ leaseSeconds = 60 }: SiteOptions = {}) {
  await using stack = new AsyncDisposableStack()
  const folder = stack.use(await temporaryFolder())
  const server = stack.use(await startRunnerServer({ leaseSeconds }))
  const project = stack.use(await createProject())
  const dataDir = folder.path
  const options = {
    url: server.url,
    token: new Sensitive(server.token),
    settings: readSettings({
      SVC_DATA_DIR: dataDir,
      SVC_FREE_SPACE_MIN: '0',
      SVC_LOG_LEVEL: 'silent',
    }),
    log: createLog({ level: 'silent', output: process.stderr }),
    environment: {},
    path: process.env.PATH ?? '',
    version: '0.0.0',
    onEnd: async () => {},
  }
  const runner = createRunnerProcess(options)
  stack.defer(() => runner.stop(5000))
  const owned = stack.move()
  return {
    server,
    runner,
    dataDir,
    options,
    async queue(text: string) {
      const [plan, pack] = await planFor(project, text)
      return server.queue(plan, pack)
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}
