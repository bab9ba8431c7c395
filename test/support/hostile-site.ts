import assert from 'node:assert/strict'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { newTokenString } from '#base/token-string.ts'
import { until } from './condition.ts'
import { temporaryFolder } from './git.ts'
import { commandOf, familyOf, processesInWorkspaces } from './processes.ts'
import { type Client, type Service, startService } from './service.ts'
import { openTables } from './tables.ts'
import { logOf, pushFiles, runToEnd } from './workflow-site.ts'

export type HostileSite = Awaited<ReturnType<typeof startHostileSite>>

/** A server with its runner, which can be killed and started again on the same data. */
export async function startHostileSite(env: Record<string, string> = {}, wantedDataDir?: string) {
  await using stack = new AsyncDisposableStack()
  const folder = stack.use(await temporaryFolder())
  const dataDir = wantedDataDir ?? join(folder.path, 'data')
  const kept = {
    SVC_RUNNER: 'on',
    SVC_SANDBOX: 'require',
    SVC_ADMIN_TOKEN: newTokenString(),
    // Steps have a network only where this variable lists hosts.
    SVC_STEP_HOSTS: process.env.SVC_TEST_STEP_HOSTS ?? '',
  }
  const begin = (more: Record<string, string>) =>
    startService({ dataDir, env: { ...kept, ...env, ...more } })
  let service = stack.use(await begin({}))
  const owned = stack.move()
  return {
    dataDir,
    service: (): Service => service,
    admin: (): Client => service.admin,

    /** Starts a server where the former one has ended. */
    async startAgain(more: Record<string, string> = {}): Promise<Service> {
      service = owned.use(await begin(more))
      return service
    },

    /** The process of the runner beside the server; undefined while there is none. */
    runnerPid: () =>
      familyOf(service.pid).find((pid) => /\/runner-main\.[jt]s$/.test(commandOf(pid))),

    /** Commits one workflow file, and runs it to its end: the run, its first step and its log. */
    async attack(name: string, text: string) {
      await pushFiles(service.admin, name, { '.svc/workflows/ci.yml': text })
      const run = await runToEnd(service.admin, name)
      const [step] = run.result.steps
      return { run, step, log: await logOf(service.admin, name, run.id) }
    },

    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** Fails unless no process and no file of any run is left, the server is well, and it runs the next one. */
export async function assertRecovered(site: HostileSite): Promise<void> {
  assert.deepEqual(processesInWorkspaces(site.dataDir).map(commandOf), [])
  await until(
    'the runner has put everything away, or the next one after one that was killed',
    async () => (await filesLeft(site.dataDir)).length === 0,
  )
  assert.equal((await site.admin().get('/health')).body.status, 'ok')
  const { run } = await site.attack('next', 'steps: [{ run: ls; true }]')
  assert.equal(run.conclusion, 'success')
}

async function filesLeft(dataDir: string): Promise<string[]> {
  const folders = ['workspaces', 'runs'].map((name) =>
    // Before its first run there is no runner.
    readdir(join(dataDir, 'runner', name)).catch(() => []),
  )
  return (await Promise.all(folders)).flat()
}

/** Starts a run; its id when a step of it has written a line. */
export async function begin(site: HostileSite, name: string, line: string): Promise<string> {
  const { body } = await site.admin().post(`/repos/${name}/workflows`, {})
  await untilWritten(site, name, body.id, `\n${line}\n`)
  return body.id
}

export async function untilWritten(site: HostileSite, name: string, id: string, word: string) {
  await until(`the step has written ${word}`, async () =>
    (await logOf(site.admin(), name, id)).includes(word),
  )
}

/** A run as the API returns it. */
export async function runOf(site: HostileSite, name: string, id: string) {
  return (await site.admin().get(`/repos/${name}/workflows/${id}`)).body
}

/** The states of a run in the event log, in order. */
export function runEventsOf({ dataDir }: HostileSite, id: string): string {
  using tables = openTables(dataDir)
  const events = tables.rows('events').map(({ data }) => JSON.parse(String(data)))
  return events
    .filter(({ runId }) => runId === id)
    .map(({ action }) => action)
    .join(' ')
}
