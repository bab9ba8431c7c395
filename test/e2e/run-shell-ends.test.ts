// Tags: exhaustive
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { loggedIn } from '../support/client-home.ts'
import { until } from '../support/condition.ts'
import { onlyLocal } from '../support/kind-of-store.ts'
import { processesInWorkspaces, processesNaming } from '../support/processes.ts'
import { without } from '../support/programs.ts'
import { startRunner } from '../support/runner.ts'
import { type Client, startService } from '../support/service.ts'
import { failRun, openShell, startShellSite } from '../support/shell-site.ts'

const options = { skip: without('bubblewrap'), timeout: 300_000 }

const sleeping = (word: string) => async () => processesNaming(word).length > 0
const ended = (word: string) => async () => processesNaming(word).length === 0

/** Opens a shell in which a command runs that names a word. */
async function openSleeping(client: Client, name: string, word: string) {
  const shell = await openShell(client, name)
  await shell.write(`echo ready; sleep ${word}\n`)
  await until('the command runs', sleeping(word))
  return shell
}

/** Whether the service says that a workspace of the first run is kept. */
async function isKept(client: Client, name: string): Promise<boolean> {
  return (await client.get(`/repos/${name}/workflows/1`)).body.failure.workspaces.length > 0
}

async function workspacesOf(folder: string): Promise<string[]> {
  return (await readdir(join(folder, 'workspaces'))).filter((name) => name.startsWith('svc-'))
}

test('a shell ends when its client has vanished', options, async () => {
  await using site = await startShellSite()
  const { admin } = site.service
  await failRun(admin, 'site')
  await using home = await loggedIn(site.service)
  const client = home.start(['runs', 'shell', 'site', '1'])
  client.stdin.write('echo ready; sleep 4714301\n')
  await until('the command runs', sleeping('4714301'))
  client.kill('SIGKILL')
  await once(client, 'close')
  await until('the shell has ended', ended('4714301'))
  const [entry] = (await admin.get('/audit?action=run_shell.closed')).body
  assert.equal(entry.data.reason, 'Its user was away.')
  const next = await openShell(admin, 'site')
  await next.write('exit 3\n')
  assert.deepEqual(await next.ended(), { exitCode: 3, reason: '' })
})

test('a client that is interrupted closes its shell', options, async () => {
  await using site = await startShellSite()
  const { admin } = site.service
  await failRun(admin, 'site')
  await using home = await loggedIn(site.service)
  const client = home.start(['runs', 'shell', 'site', '1'])
  client.stdin.write('echo ready; sleep 4714302\n')
  await until('the command runs', sleeping('4714302'))
  client.kill('SIGTERM')
  const [code] = await once(client, 'close')
  assert.equal(code, 130)
  await until('the shell has ended', ended('4714302'))
  const [entry] = (await admin.get('/audit?action=run_shell.closed')).body
  assert.deepEqual([entry.data.reason, entry.via], ['Its user closed it.', 'api'])
})

test('a shell ends after its time', { ...options, skip: options.skip || onlyLocal }, async () => {
  await using site = await startShellSite()
  const { admin, dataDir } = site.service
  await failRun(admin, 'site')
  const shell = await openSleeping(admin, 'site', '4714303')
  using database = new DatabaseSync(join(dataDir, 'svc.db'), { timeout: 60_000 })
  database.exec('update run_shells set opened_at = opened_at - 30 * 60000')
  const { exitCode, reason } = await shell.ended()
  assert.deepEqual([exitCode, reason], [null, 'A shell is open for at most 30 minutes.'])
  await until('its processes have ended', ended('4714303'))
})

test('nothing of a shell is left when its server is killed', options, async () => {
  await using site = await startShellSite()
  const { admin, dataDir } = site.service
  await failRun(admin, 'site')
  await openSleeping(admin, 'site', '4714304')
  await site.service.end('SIGKILL')
  await until('the shell has ended', ended('4714304'))
  await until('all have ended', () => processesInWorkspaces(dataDir).length === 0)
  await using again = await startService({
    env: { ...site.env, SVC_ADMIN_TOKEN: site.service.adminToken },
    dataDir,
  })
  const { status, body } = await again.admin.post('/repos/site/workflows/1/shells', {})
  assert.deepEqual([status, body.code], [410, 'workspace_removed'])
  const [entry] = (await again.admin.get('/audit?action=run_shell.closed')).body
  assert.equal(entry.data.reason, 'The runner was lost.')
  await failRun(again.admin, 'other')
  const shell = await openShell(again.admin, 'other')
  await shell.write('exit 0\n')
  await shell.ended()
  assert.equal((await workspacesOf(join(dataDir, 'runner'))).length, 1)
})

test('a shell in a runner elsewhere goes on while its server is restarted', options, async () => {
  await using site = await startElsewhere()
  const { admin, url, dataDir } = site.service
  await failRun(admin, 'site')
  await using home = await loggedIn(site.service)
  const client = home.start(['runs', 'shell', 'site', '1'])
  let shown = ''
  client.stdout.setEncoding('utf8').on('data', (text: string) => {
    shown += text
  })
  client.stdin.write('echo before\n')
  await until('the shell works', () => /before/.test(shown))
  await site.service.end('SIGKILL')
  const env = { ...site.env, SVC_PORT: new URL(url).port }
  await using _again = await startService({ env, dataDir })
  client.stdin.end('echo after; exit 9\n')
  const [code] = await once(client, 'close')
  assert.deepEqual([code, shown], [9, 'before\nafter\n'])
})

test('when its runner stops, a shell ends and its workspace is removed', options, async () => {
  await using site = await startElsewhere()
  const { admin } = site.service
  await failRun(admin, 'site')
  const shell = await openSleeping(admin, 'site', '4714305')
  site.runner.kill('SIGTERM')
  assert.equal(await site.runner.ended(), 0)
  assert.deepEqual(processesNaming('4714305'), [])
  assert.deepEqual(await shell.ended(), { exitCode: null, reason: 'The runner is stopping.' })
  assert.deepEqual(await workspacesOf(site.runner.folder), [])
  const { status, body } = await admin.post('/repos/site/workflows/1/shells', {})
  assert.deepEqual([status, body.code], [410, 'workspace_removed'])
  assert.match(body.detail, /was removed at 2\S+Z: .* for 600 seconds \(SVC_FAILED_WORKSPACE_/)
})

test(
  'a killed runner leaves nothing, and the next one removes the workspace',
  options,
  async () => {
    await using site = await startElsewhere()
    const { admin } = site.service
    await failRun(admin, 'site')
    await openSleeping(admin, 'site', '4714306')
    site.runner.kill('SIGKILL')
    await site.runner.ended()
    await until('the shell has ended', ended('4714306'))
    assert.equal((await workspacesOf(site.runner.folder)).length, 1)
    await using _next = await site.startRunner(site.runner.folder)
    await until('it is removed', async () => (await workspacesOf(site.runner.folder)).length === 0)
  },
)

test('a workspace is removed after its time, but not under a shell', options, async () => {
  await using site = await startElsewhere({ SVC_FAILED_WORKSPACE_SECONDS: '5' })
  const { admin } = site.service
  await failRun(admin, 'site')
  const shell = await openShell(admin, 'site')
  await failRun(admin, 'other')
  await until('the other is removed', async () => !(await isKept(admin, 'other')))
  const { status, body } = await admin.post('/repos/other/workflows/1/shells', {})
  assert.equal(status, 410)
  assert.match(body.detail, /The workspace of run 1 was removed at/)
  await shell.write('test -f left.txt && echo there; exit 0\n')
  await shell.shows(/there/)
  assert.deepEqual(await shell.ended(), { exitCode: 0, reason: '' })
  await until('it is removed', async () => !(await isKept(admin, 'site')))
  await until(
    'no files are left',
    async () => (await workspacesOf(site.runner.folder)).length === 0,
  )
})

test('a runner keeps at most 3 workspaces, the newest', options, async () => {
  await using site = await startElsewhere()
  const { admin } = site.service
  for (const name of ['one', 'two', 'three', 'four']) await failRun(admin, name)
  const opened = []
  for (const name of ['four', 'three', 'two']) {
    const shell = await openShell(admin, name)
    await shell.write('echo here\n')
    await shell.shows(/here/)
    opened.push(shell)
  }
  await until('the oldest is removed', async () => !(await isKept(admin, 'one')))
  assert.equal((await workspacesOf(site.runner.folder)).length, 3)
  await failRun(admin, 'five')
  assert.equal((await admin.post('/repos/five/workflows/1/shells', {})).status, 410)
  for (const shell of opened) await shell.write('exit 0\n')
  for (const shell of opened) assert.equal((await shell.ended()).exitCode, 0)
})

test('a shell reaches the hosts that the steps reach, and no others', options, async () => {
  await using site = await startElsewhere({ SVC_STEP_HOSTS: 'allowed.example' })
  const { admin } = site.service
  const attempt = (host: string) =>
    `curl -s -o /dev/null -m 10 -w '%{http_code}\\n' http://${host}/ || true`
  const [proxied, none] = [`steps: [{ run: 'false' }]`, `network: none\nsteps: [{ run: 'false' }]`]
  await failRun(admin, 'proxied', proxied)
  await failRun(admin, 'none', none)
  const shell = await openShell(admin, 'proxied')
  await shell.write(`${attempt('10.0.0.1')}; ${attempt('other.example')}; echo "$HTTP_PROXY"\n`)
  await shell.shows(/^403\n403\nhttp:\/\/127\.0\.0\.1:3128\n$/)
  await shell.write('exit 0\n')
  await shell.ended()
  const other = await openShell(admin, 'none')
  await other.write(
    `echo "[$HTTP_PROXY]"; ls /sys/class/net 2>/dev/null; ${attempt('127.0.0.1:3128')}\n`,
  )
  await other.shows(/^\[\]\n000\n$/)
})

test('without the setting, nothing is kept', options, async () => {
  await using site = await startElsewhere({ SVC_FAILED_WORKSPACE_SECONDS: '0' })
  const { admin } = site.service
  await failRun(admin, 'site')
  assert.equal((await admin.post('/repos/site/workflows/1/shells', {})).status, 410)
  assert.deepEqual(await workspacesOf(site.runner.folder), [])
})

/** A server without a runner of its own, and a runner. */
async function startElsewhere(ofRunner: Record<string, string> = {}) {
  await using starting = new AsyncDisposableStack()
  const env = { SVC_RUNNER: 'off' }
  const service = starting.use(await startService({ env }))
  const { token } = await service.client({ permissions: ['runner'] })
  const more = { SVC_FAILED_WORKSPACE_SECONDS: '600', ...ofRunner }
  const start = (folder?: string) =>
    startRunner({ server: service.url, token, env: more, ...(folder !== undefined && { folder }) })
  const runner = starting.use(await start())
  const owned = starting.move()
  return {
    service,
    runner,
    env: { ...env, SVC_ADMIN_TOKEN: service.adminToken },
    startRunner: start,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}
