import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from '../support/condition.ts'
import { createProject, git } from '../support/git.ts'
import { startInProcess } from '../support/in-process.ts'
import { connectRaw } from '../support/raw-http.ts'
import { type Client, startService } from '../support/service.ts'

type Raw = Awaited<ReturnType<typeof connectRaw>>

/** Raw connections, which are closed together. */
function createConnections(url: string) {
  const all: Raw[] = []
  async function open(localAddress?: string): Promise<Raw> {
    const connection = await connectRaw(url, localAddress)
    all.push(connection)
    return connection
  }
  return {
    open,

    /** Sends a request on a new connection; its answer. */
    async ask(
      path: string,
      { token, from, via }: { token?: string; from?: string; via?: string } = {},
    ) {
      const connection = await open(from)
      connection.request(`GET ${path}`, {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(via !== undefined && { 'x-forwarded-for': via }),
      })
      return { connection, ...(await connection.answer()) }
    },

    [Symbol.dispose]() {
      for (const { socket } of all) socket.destroy()
    },
  }
}

function assertRefused({ status, head, body }: { status: number; head: string; body: string }) {
  assert.equal(status, 503)
  assert.match(head, /^retry-after: \d+\r$/im)
  assert.equal(JSON.parse(body).code, 'too_many_connections')
}

test('connections without an authenticated request are limited by address', async () => {
  await using service = await startInProcess({ SVC_HTTP_UNAUTHENTICATED_PER_ADDRESS: '2' })
  using connections = createConnections(service.url)
  const silent = [await connections.open(), await connections.open()]
  assertRefused(await connections.ask('/health'))
  assert.equal((await connections.ask('/health', { from: '127.0.0.2' })).status, 200)

  // One that authenticates is its user's.
  const { token } = service.admin
  silent[0]?.request('GET /repos', { authorization: `Bearer ${token}` })
  assert.equal((await silent[0]?.answer())?.status, 200)
  const { connection: idle, status } = await connections.ask('/health')
  assert.equal(status, 200)
  // One that has been served and is idle yields.
  assert.equal((await connections.ask('/health')).status, 200)
  await idle.end()
})

test('connections without an authenticated request are limited in all, and the address with the most yields', async () => {
  await using service = await startInProcess({ SVC_HTTP_UNAUTHENTICATED: '3' })
  using connections = createConnections(service.url)
  const [oldest] = [await connections.open(), await connections.open(), await connections.open()]
  assert.equal((await connections.ask('/health', { from: '127.0.0.2' })).status, 200)
  await oldest?.end()
})

test('a user has a quarter of all connections, over all tokens', async () => {
  await using service = await startInProcess({ SVC_HTTP_CONNECTIONS: '8' })
  using connections = createConnections(service.url)
  const [ada, again, grace] = [
    await service.client({ username: 'ada' }),
    await service.client({ username: 'ada' }),
    await service.client({ username: 'grace' }),
  ] as [Client, Client, Client]
  const first = await connections.ask('/repos', ada)
  const second = await connections.ask('/repos', again)
  assert.deepEqual([first.status, second.status], [200, 200])
  assertRefused(await connections.ask('/repos', ada))
  assertRefused(await connections.ask('/repos', again))
  assert.equal((await connections.ask('/repos', grace)).status, 200)
  first.connection.socket.destroy()
  await until('the place is free', async () => {
    return (await connections.ask('/repos', ada)).status === 200
  })
})

test('requests from a trusted proxy count by the address and the user behind it', async () => {
  await using service = await startInProcess({
    SVC_TRUSTED_PROXIES: '127.0.0.0/8',
    SVC_HTTP_UNAUTHENTICATED_PER_ADDRESS: '2',
    SVC_HTTP_CONNECTIONS: '8',
  })
  using connections = createConnections(service.url)
  // Idle connections of a proxy count for no address.
  for (let count = 0; count < 8; count++) await connections.open()
  for (let count = 0; count < 2; count++) {
    const login = await connections.open()
    login.request('POST /-/login', {
      'x-forwarded-for': '192.0.2.1',
      origin: service.url,
      'content-type': 'application/x-www-form-urlencoded',
      'content-length': 100,
    })
  }
  assertRefused(await connections.ask('/health', { via: '192.0.2.1' }))
  assert.equal((await connections.ask('/health', { via: '192.0.2.2' })).status, 200)

  const { token } = service.admin
  const wanted = { token, via: '192.0.2.3' }
  for (let count = 0; count < 4; count++)
    assert.equal((await connections.ask('/repos', wanted)).status, 200)
  for (let count = 0; count < 2; count++) {
    const stream = await connections.open()
    stream.request('GET /events?follow=true', {
      authorization: `Bearer ${token}`,
      'x-forwarded-for': '192.0.2.3',
    })
    await stream.atLeast(1)
  }
  assertRefused(await connections.ask('/repos', wanted))
})

test('connections are accepted only as far as there are descriptors for their work', async () => {
  await using service = await startService({
    prefix: ['sh', '-c', 'ulimit -n 256; exec "$@"', 'sh'],
  })
  await using project = await createProject()
  await service.admin.post('/repos', { name: 'site' })
  using connections = createConnections(service.url)
  const { token } = service.admin
  const held = await connections.ask('/repos', { token })
  // Of many addresses, so that none of their own limits is reached first.
  const flood = Array.from({ length: 600 }, (_, index) =>
    connections.open(`127.0.${1 + (index % 100)}.1`),
  )
  await Promise.all(flood)
  held.connection.request('GET /repos/site', { authorization: `Bearer ${token}` })
  await held.connection.atLeast(held.head.length + held.body.length + 2 + 1)
  await until('a push and a clone succeed beside the flood', async () => {
    const pushed = await project.git('push', service.admin.remote('site'), 'HEAD:main').then(
      () => true,
      () => false,
    )
    if (!pushed) return false
    const { stdout } = await git('/', ['ls-remote', service.admin.remote('site'), 'main'])
    return stdout !== ''
  })
  assert.doesNotMatch(service.log(), /EMFILE|too many open files/i)
})
