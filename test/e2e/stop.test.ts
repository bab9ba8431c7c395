import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { newTokenString } from '#base/token-string.ts'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, type Project, temporaryFolder } from '../support/git.ts'
import { commandOf, familyOf, processesIn, signal } from '../support/processes.ts'
import { cloneBody, gitHeaders, pushBody } from '../support/raw-git.ts'
import { connectRaw } from '../support/raw-http.ts'
import { launcher, type Service, startService } from '../support/service.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

const execute = promisify(execFile)
const mib = 1024 * 1024
// A stop that would have to wait for its time limit never ends within the test.
const patient = { SVC_STOP_SECONDS: '3600' }

/** Its clone is larger than what the sockets hold. */
let large: Project

before(async () => {
  large = await createProject()
  await large.git('config', 'core.compression', '0')
  await large.commit('large.bin', randomBytes(16 * mib).toString('hex'))
})

after(() => large[Symbol.asyncDispose]())

test('SIGTERM lets a running clone and push finish, and nothing new start', async () => {
  await using service = await startService({ env: patient })
  await using project = await createProject()
  using clone = await startClone(service)
  const body = await pushBody(project.path, 'topic')
  using push = await connectRaw(service.url)
  const headers = gitHeaders('git-receive-pack', service.adminToken, body.length)
  push.request('POST /repos/site.git/git-receive-pack', headers)
  push.socket.write(body.subarray(0, 200))
  await until('both gits are at work', () => processesIn(service.dataDir).length >= 2)
  using idle = await connectRaw(service.url)
  idle.request('GET /health')
  assert.equal((await idle.answer()).status, 200)

  signal(service.pid, 'SIGTERM')
  await idle.end()
  await until('new connections are refused', () => isRefused(service.url))
  push.socket.write(body.subarray(200))
  assert.match((await push.answer()).body, /ok refs\/heads\/topic/)
  clone.socket.resume()
  assert.match(await clone.end(), /0000\r\n0\r\n\r\n$/)
  assert.equal(await service.end('SIGCONT'), 0)
  assert.deepEqual(processesIn(service.dataDir), [])

  await using again = await startService({ dataDir: service.dataDir })
  const listed = await project.git('ls-remote', again.admin.remote('site'))
  assert.match(listed, new RegExp(`${await project.git('rev-parse', 'HEAD')}\trefs/heads/topic`))
})

test('SIGTERM ends new requests while a run is handed back, which waits for the next start', async () => {
  await using service = await startService({ env: { ...patient, SVC_RUNNER: 'on' } })
  const { admin, dataDir } = service
  await pushFiles(admin, 'running', oneStep('echo started; sleep 3600'))
  const { id } = (await admin.post('/repos/running/workflows', {})).body
  const path = `/repos/running/workflows/${id}`
  await until('it runs', async () => /started/.test((await admin.get(`${path}/logs`)).text))
  const isRunner = (pid: number) => commandOf(pid).includes('runner-main')
  const runner = familyOf(service.pid).find(isRunner) ?? assert.fail('no runner')
  signal(runner, 'SIGSTOP')
  signal(service.pid, 'SIGTERM')
  await until('new connections are refused', () => isRefused(service.url))
  signal(runner, 'SIGCONT')
  assert.equal(await service.end('SIGCONT'), 0)
  await using again = await startService({ dataDir })
  assert.equal((await again.admin.get(path)).body.status, 'queued')
})

test('a response that is being sent during SIGTERM is completed', exhaustive, async () => {
  await using service = await startService({ env: patient })
  fillWithRepositories(service.dataDir, 60_000)
  using connection = await connectRaw(service.url)
  connection.request('GET /repos', { authorization: `Bearer ${service.adminToken}` })
  await connection.atLeast(1)
  connection.socket.pause()
  signal(service.pid, 'SIGTERM')
  await until('new connections are refused', () => isRefused(service.url))
  connection.socket.resume()
  assert.equal(JSON.parse((await connection.answer()).body).length, 60_000)
  assert.equal(await service.end('SIGCONT'), 0)
})

test('a request that outlasts the stop timeout is cut off', exhaustive, async () => {
  await using service = await startService({ env: { SVC_STOP_SECONDS: '0' } })
  using clone = await startClone(service)
  assert.equal(await service.end('SIGINT'), 0)
  assert.deepEqual(processesIn(service.dataDir), [])
  clone.socket.resume()
  assert.doesNotMatch(await clone.end(), /0\r\n\r\n$/)
})

for (const [second, exitCode] of [
  ['SIGTERM', 143],
  ['SIGINT', 130],
] as const) {
  test(`a second signal, ${second}, ends the server and its git processes at once`, async () => {
    await using service = await startService({ env: patient })
    using _clone = await startClone(service)
    signal(service.pid, 'SIGTERM')
    await until('the server is stopping', () => /"stopping; /.test(service.log()))
    assert.equal(await service.end(second), exitCode)
    await until('no git is left', () => processesIn(service.dataDir).length === 0)
  })
}

test('a second server on the same data directory refuses to start', exhaustive, async () => {
  await using service = await startService()
  const { code, stderr, stdout } = await failingStart({ SVC_DATA_DIR: service.dataDir })
  assert.match(stderr, /^svc: Another svc server is running on \S+; .*\n$/)
  assert.ok(stderr.includes(service.dataDir))
  assert.deepEqual([code, stdout], [1, ''])
  assert.equal((await service.admin.get('/repos')).status, 200)
})

test(
  'a killed server releases the data directory, even if a git process still runs',
  exhaustive,
  async () => {
    await using folder = await temporaryFolder()
    const dataDir = join(folder.path, 'data')
    await using service = await startService({ dataDir })
    using _clone = await startClone(service)
    const orphans = processesIn(dataDir)
    assert.notDeepEqual(orphans, [])
    for (const pid of orphans) signal(pid, 'SIGSTOP')
    await service.end('SIGKILL')
    await using again = await startService({
      dataDir,
      env: { SVC_ADMIN_TOKEN: service.adminToken },
    })
    assert.equal((await again.admin.get('/repos')).body.length, 1)
    assert.deepEqual(processesIn(dataDir), [])
  },
)

test('invalid settings stop the start with a line each, which says what is accepted', async () => {
  await using folder = await temporaryFolder()
  const token = newTokenString()
  const url = 'mysql://svc:hidden-password@example.com/svc'
  const { code, stderr, stdout } = await failingStart({
    SVC_DATA_DIR: join(folder.path, 'data'),
    SVC_PORT: '80800',
    SVC_PUSH_MAX: '2 GB',
    SVC_ADMIN_TOKEN: `${token}x`,
    SVC_DATABASE_URL: url,
  })
  const lines = stderr.trimEnd().split('\n')
  assert.deepEqual([code, stdout, lines.length], [2, '', 4])
  const all = lines.join('\n')
  assert.match(all, /^(svc: )?SVC_PORT: "80800" .* a whole number from 0 to 65535\.$/m)
  assert.match(
    all,
    /^(svc: )?SVC_PUSH_MAX: "2 GB" .* one with KiB, MiB or GiB, from 1KiB to 1024GiB\.$/m,
  )
  assert.match(all, /^(svc: )?SVC_ADMIN_TOKEN: its value is not accepted; it takes svc_, .*\.$/m)
  assert.match(all, /^(svc: )?SVC_DATABASE_URL: its value .* a postgres:\/\/ .*\.$/m)
  assert.doesNotMatch(all, /hidden-password/)
  assert.ok(!all.includes(token))
})

test('a port in use stops the start with one line, and the first admin token is not lost', async () => {
  await using folder = await temporaryFolder()
  const dataDir = join(folder.path, 'data')
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  const address = other.address()
  assert.ok(typeof address === 'object' && address)
  const { code, stderr, stdout } = await failingStart({
    SVC_DATA_DIR: dataDir,
    SVC_PORT: String(address.port),
  })
  other.close()
  assert.deepEqual([code, stdout], [1, ''])
  assert.match(
    stderr,
    new RegExp(`^svc: .*127\\.0\\.0\\.1, port ${address.port}: the port is in use.*\n$`),
  )
  assert.doesNotMatch(stderr, /svc_/)
  await using service = await startService({ dataDir, env: { SVC_ADMIN_TOKEN: '' } })
  assert.match(service.log(), /^ {4}\/.*\/admin-token$/m)
  assert.match(await readFile(join(dataDir, 'admin-token'), 'utf8'), /^svc_\w{36}\n$/)
})

/** Begins a clone of the large project, and stops reading it. */
async function startClone(service: Service) {
  await service.admin.post('/repos', { name: 'site' })
  await large.git('push', service.admin.remote('site'), 'HEAD:main')
  const body = cloneBody(await large.git('rev-parse', 'HEAD'))
  const connection = await connectRaw(service.url)
  const headers = gitHeaders('git-upload-pack', service.adminToken, body.length)
  connection.request('POST /repos/site.git/git-upload-pack', headers)
  connection.socket.write(body)
  await connection.atLeast(1)
  connection.socket.pause()
  return connection
}

/** More rows than any socket holds in its buffers; nothing asks for their directories. */
function fillWithRepositories(dataDir: string, count: number): void {
  // The server writes, too: how far it has read its events.
  using database = new DatabaseSync(join(dataDir, 'svc.db'), { timeout: 5000 })
  database.exec(`
    with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ${count})
    insert into repositories (id, name, name_key, owner_token_id, owner_username, created_at)
    select printf('%026d', n), 'r' || n, 'r' || n, 'nobody', 'nobody', 0 from numbers`)
}

/** Starts a server that is expected to refuse; its exit code and what it said. */
async function failingStart(env: Record<string, string>) {
  type Failure = { code: number; stdout: string; stderr: string }
  const options = { env: { PATH: process.env.PATH, SVC_PORT: '0', SVC_SSH_PORT: '0', ...env } }
  return execute(launcher, ['serve'], options).then(
    () => assert.fail('It started.'),
    // What execFile rejects with.
    ({ code, stdout, stderr }: Failure) => ({ code, stdout, stderr }),
  )
}

function isRefused(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port) })
  return new Promise((resolve) => {
    socket.on('error', () => resolve(true)).on('connect', () => resolve(false))
  }).finally(() => socket.destroy()) as Promise<boolean>
}

test('npm start forwards the stop signal to the server', exhaustive, async () => {
  await using folder = await temporaryFolder()
  const env = {
    ...process.env,
    SVC_DATA_DIR: join(folder.path, 'data'),
    SVC_PORT: '0',
    SVC_SSH_PORT: '0',
  }
  const cwd = fileURLToPath(new URL('../..', import.meta.url))
  const npm = spawn('npm', ['start'], { cwd, env, stdio: ['ignore', 'pipe', 'ignore'] })
  let output = ''
  npm.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  const url = await until('it listens', () => /"http":"([^"]+)"/.exec(output)?.[1])
  npm.kill('SIGTERM')
  await until('it has stopped', () =>
    fetch(`${url}/health`).then(
      () => false,
      () => true,
    ),
  )
})
