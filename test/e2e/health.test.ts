import assert from 'node:assert/strict'
import { once } from 'node:events'
import { chmod, rename } from 'node:fs/promises'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { runSvc } from '../support/command.ts'
import { until } from '../support/condition.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { temporaryFolder } from '../support/git.ts'
import { startInProcess } from '../support/in-process.ts'
import { startPostgres } from '../support/postgres.ts'
import { without } from '../support/programs.ts'
import { type Answer, type Service, startService, toAnswer } from '../support/service.ts'

const needed = { skip: without('postgres') }

test('while PostgreSQL is stopped, health is 503 and names the database', {
  ...exhaustive,
  ...needed,
}, async () => {
  const postgres = await startPostgres()
  assert.ok(postgres)
  try {
    await using service = await startService({ env: { SVC_DATABASE_URL: postgres.url } })
    await untilHealthy(service)
    postgres.halt()
    assertNamesDatabase(await untilMissing(service))
    assert.equal((await fetch(`${service.url}/health`, { method: 'HEAD' })).status, 503)
    postgres.resume()
    await untilHealthy(service)
    assert.equal((await service.admin.post('/repos', { name: 'after' })).status, 201)
  } finally {
    postgres.stop()
  }
})

test('while PostgreSQL hangs, health is 503 without delay', {
  ...exhaustive,
  ...needed,
}, async () => {
  const { url, drop } = await createPostgresDatabase()
  {
    using gate = await openGate(url)
    await using service = await startService({ env: { SVC_DATABASE_URL: gate.url } })
    await untilHealthy(service)
    gate.shut()
    assertNamesDatabase(await untilMissing(service))
    // Nothing passes as long as the gate is shut: an answer that waited for the database would never come.
    assertNamesDatabase(await health(service))
    gate.open()
    await untilHealthy(service)
  }
  await drop()
})

test('without the data directory, health is 503 and names it', async () => {
  await using service = await startService()
  await untilHealthy(service)
  const [folder, elsewhere] = ['repositories', 'elsewhere'].map((name) =>
    join(service.dataDir, name),
  ) as [string, string]
  await rename(folder, elsewhere)
  const { body } = await untilMissing(service)
  assert.equal(body.code, 'storage_unavailable')
  assert.match(body.detail, /data directory/)
  await rename(elsewhere, folder)
  await untilHealthy(service)
})

test('while folders of the data directory are missing, no repository is reported as damaged', async () => {
  await using service = await startService({ env: { SVC_SSH_PORT: '0' } })
  const { admin, dataDir, url } = service
  await admin.post('/repos', { name: 'site' })
  const listing = `${url}/repos/site.git/info/refs?service=git-upload-pack`
  const authorization = `Bearer ${service.adminToken}`
  for (const name of ['repositories', 'staging', 'trash']) {
    await rename(join(dataDir, name), join(dataDir, 'elsewhere'))
    const { body } = await untilMissing(service)
    assert.equal(body.code, 'storage_unavailable', name)
    const created = await admin.post('/repos', { name: 'new' })
    if (name !== 'trash') assert.equal(created.body.code, 'storage_unavailable', created.text)
    if (name === 'repositories') {
      assert.equal((await admin.get('/repos/site')).body.code, 'storage_unavailable')
      const answer = await fetch(listing, { headers: { authorization } })
      assert.equal(answer.status, 503)
      assert.match(await answer.text(), /data directory/)
    }
    await rename(join(dataDir, 'elsewhere'), join(dataDir, name))
    await untilHealthy(service)
    await admin.delete('/repos/new')
    assert.equal((await fetch(listing, { headers: { authorization } })).status, 200)
    assert.equal((await admin.post('/repos', { name: 'new' })).status, 201)
    assert.equal((await admin.delete('/repos/new')).status, 204)
  }
})

test('a full disk is said by the status, at once, in the log once, and by the exit code of the command', async () => {
  await using service = await startInProcess({ SVC_FREE_SPACE_MIN: '1024GiB' })
  for (let count = 0; count < 3; count++) {
    const { status, body } = await toAnswer(await fetch(`${service.url}/health`))
    assert.deepEqual([status, body], [200, { status: 'storage_full' }])
  }
  assert.equal((await service.admin.post('/repos', { name: 'new' })).body.code, 'storage_full')
  assert.equal(service.log().match(/disk nearly full: writes are rejected/g)?.length, 1)
  const env = { SVC_URL: service.url, SVC_TOKEN: service.adminToken }
  const { code, out, err } = await runSvc(['health'], env)
  assert.deepEqual(
    [code, err],
    [1, 'svc: The server cannot write; its log says why. Reading goes on.\n'],
  )
  assert.match(out, /^Status: storage_full$/m)
})

test('keys that other users can read are said at each start', async () => {
  await using folder = await temporaryFolder()
  const keys = ['encryption.key', 'ssh_host_ed25519_key'].map((name) => join(folder.path, name))
  const start = () => startInProcess({ SVC_DATA_DIR: folder.path, SVC_SSH_PORT: '0' })
  const linesOf = async () => {
    await using service = await start()
    return service
      .log()
      .split('\n')
      .filter((line) => line.includes('key file open to other users'))
  }
  assert.deepEqual(await linesOf(), [])
  for (const key of keys) await chmod(key, 0o640)
  const lines = await linesOf()
  assert.equal(lines.length, 2)
  for (const [at, key] of keys.entries()) {
    const { path, mode } = JSON.parse(lines[at] ?? '')
    assert.deepEqual([path, mode], [key, '0640'])
  }
  for (const key of keys) await chmod(key, 0o600)
  assert.deepEqual(await linesOf(), [])
})

async function health({ url }: Service): Promise<Answer> {
  return toAnswer(await fetch(`${url}/health`))
}

function untilHealthy(service: Service): Promise<Answer> {
  return untilStatus(service, 200)
}

function untilMissing(service: Service): Promise<Answer> {
  return untilStatus(service, 503)
}

function untilStatus(service: Service, status: number): Promise<Answer> {
  return until(`health is ${status}`, async () => {
    const answer = await health(service)
    assert.ok([200, 503].includes(answer.status), answer.text)
    return answer.status === status && answer
  })
}

function assertNamesDatabase({ headers, body }: Answer): void {
  assert.equal(headers.get('content-type'), 'application/problem+json')
  assert.match(headers.get('retry-after') ?? '', /^[1-9]\d*$/)
  assert.equal(body.code, 'database_unavailable')
  assert.match(body.detail, /The database does not respond/)
}

/** A way to a database that can be shut: connections stay, and nothing passes. */
async function openGate(url: string) {
  const { hostname, port } = new URL(url)
  const sockets = new Set<Socket>()
  let isShut = false
  const server = createServer((client) => {
    const target = connect(Number(port), hostname)
    for (const [from, to] of [
      [client, target],
      [target, client],
    ] as const) {
      sockets.add(from)
      from.on('error', () => {})
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
      from.pipe(to)
      if (isShut) from.pause()
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const through = new URL(url)
  // A TCP server's address is neither null nor a path once it listens.
  through.port = String((server.address() as AddressInfo).port)
  return {
    url: through.href,
    shut(): void {
      isShut = true
      for (const socket of sockets) socket.pause()
    },
    open(): void {
      isShut = false
      for (const socket of sockets) socket.resume()
    },
    [Symbol.dispose]() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}
