// Tags: each-store

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { connect } from 'node:net'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { pruneEvents } from '#api/event-log/event-retention.ts'
import { oldestUncomposed } from '#webhooks/delivery-store.ts'
import { until } from '../support/condition.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { sampleEvent } from '../support/event-kinds.ts'
import { followStream } from '../support/event-stream.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, type Project } from '../support/git.ts'
import { type InProcess, startInProcess } from '../support/in-process.ts'
import { without } from '../support/programs.ts'
import { publish } from '../support/publish.ts'
import {
  type Answer,
  type Client,
  createClient,
  launcher,
  startService,
} from '../support/service.ts'

const execute = promisify(execFile)

type ReceivedEvent = {
  seq: number
  kind: string
  repoName: string
  data: { ref: string; after: string }
}

let service: InProcess
let project: Project

before(async () => {
  project = await createProject()
  service = await startInProcess()
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

const perUser = 100

function nextOf({ headers }: Answer): string {
  const [, address = ''] = /^<([^>]+)>; rel="next"$/.exec(headers.get('link') ?? '') ?? []
  return address
}

async function latest(client: Client): Promise<number> {
  const [, seq] = /after=(\d+)/.exec(nextOf(await client.get('/events?after=latest'))) ?? []
  return Number(seq)
}

async function delegateOf(client: Client): Promise<Client> {
  const { body } = await client.post('/tokens/delegate', { name: 'agent' })
  return createClient(service.url, body.token)
}

/** Opens a stream; resolves when it gets all further events. */
async function follow(client: Client, query = '', headers: Record<string, string> = {}) {
  const stream = await followStream(client, `/events${query}`, headers)
  const first = await stream.next()
  assert.equal(first?.data, '')
  return { ...stream, from: Number(first.id) }
}

type Stream = Awaited<ReturnType<typeof follow>>

/** The next event of a stream; fails when it ends. */
async function nextEvent(stream: Stream): Promise<ReceivedEvent> {
  for (;;) {
    const received = await stream.next()
    assert.ok(received, 'the stream has ended')
    if (received.data !== '') return JSON.parse(received.data)
  }
}

/** The remaining events of a stream. */
async function rest(stream: Stream): Promise<ReceivedEvent[]> {
  const events: ReceivedEvent[] = []
  for (let received = await stream.next(); received; received = await stream.next())
    if (received.data !== '') events.push(JSON.parse(received.data))
  return events
}

async function publishMany(count: number, repositoryId: string): Promise<void> {
  // Pushes would be looked at for workflows, and there are none of these.
  const events = Array.from({ length: count }, () => sampleEvent('protection.added', repositoryId))
  await service.db.transaction().execute((tx) => publish(tx, Date.now(), events))
}

async function newRepository(name: string, owner = service.admin): Promise<string> {
  return (await owner.post('/repos', { name })).body.id
}

test('a reader that follows the links gets every event once, in order', async () => {
  await newRepository('pages')
  for (const branch of ['a', 'b', 'c', 'd', 'e'])
    await service.admin.put(`/repos/pages/protections/branches/${branch}`)
  const seqs: number[] = []
  for (let next = '/events?limit=2'; ; ) {
    const answer = await service.admin.get(next)
    if (answer.body.length === 0) break
    seqs.push(...answer.body.map(({ seq }: ReceivedEvent) => seq))
    next = nextOf(answer)
    assert.match(next, /^\/events\?limit=2&after=\d+$/)
  }
  const count = await latest(service.admin)
  assert.ok(count > 5)
  assert.deepEqual(
    seqs,
    Array.from({ length: count }, (_, index) => index + 1),
  )
})

test('with `before` the newest events come first, and the links lead to the oldest', async () => {
  const reader = await service.client({ username: 'newest-first' })
  await newRepository('backwards', reader)
  for (const branch of ['a', 'b', 'c', 'd'])
    await reader.put(`/repos/backwards/protections/branches/${branch}`)
  await publishMany(2100, await newRepository('not-theirs'))
  for (const filter of ['', '&repository=backwards', '&kind=protection.added,repository.created']) {
    const seqs: number[] = []
    let next = `/events?limit=2&before=latest${filter}`
    while (next !== '') {
      const answer = await reader.get(next)
      seqs.push(...answer.body.map(({ seq }: ReceivedEvent) => seq))
      next = nextOf(answer)
    }
    const { body } = await reader.get(`/events?limit=1000${filter}`)
    const oldestFirst = body.map(({ seq }: ReceivedEvent) => seq)
    assert.equal(seqs.length, 5, filter)
    assert.deepEqual(seqs.toReversed().slice(0, oldestFirst.length), oldestFirst)
  }
})

test('an event has its number, kind, repository, actor, time and data', async () => {
  const owner = await service.client({ username: 'ada' })
  const after = await latest(owner)
  const earliest = Date.now()
  const id = await newRepository('fields', owner)
  await owner.patch('/repos/fields', { name: 'renamed' })
  const [created] = (await owner.get(`/events?after=${after}`)).body
  const { createdAt, ...fields } = created
  assert.deepEqual(fields, {
    seq: after + 1,
    kind: 'repository.created',
    repositoryId: id,
    repoName: 'renamed',
    actor: { id: owner.id, username: 'ada' },
    data: { name: 'fields' },
  })
  assert.ok(createdAt >= earliest && createdAt <= Date.now())
  await service.admin.delete('/repos/renamed')
  const [gone] = (await service.admin.get(`/events?after=${after}`)).body
  assert.equal(gone.repoName, null)
})

test('events are filtered by repository and by kind', async () => {
  const after = await latest(service.admin)
  const id = await newRepository('picked')
  await newRepository('other')
  await service.admin.put('/repos/picked/protections/branches/a')
  await service.admin.delete('/repos/picked/protections/branches/a')
  const kindsOf = async (query: string) =>
    (await service.admin.get(`/events?after=${after}&${query}`)).body.map(
      ({ kind, repositoryId }: ReceivedEvent & { repositoryId: string }) => [
        kind,
        repositoryId === id,
      ],
    )
  assert.deepEqual(await kindsOf('repository=picked'), [
    ['repository.created', true],
    ['protection.added', true],
    ['protection.removed', true],
  ])
  assert.deepEqual(await kindsOf('kind=repository.created,protection.removed'), [
    ['repository.created', true],
    ['repository.created', false],
    ['protection.removed', true],
  ])
  assert.deepEqual(await kindsOf('kind=repository.created&repository=picked'), [
    ['repository.created', true],
  ])
})

test('invalid queries are rejected', async () => {
  const queries = ['after=-1', 'after=01', 'after=x', 'after=', 'limit=0', 'limit=1001', 'wait=61']
  for (const query of [...queries, 'kind=', 'kind=pushes', 'kind=push,', 'repository=a..b']) {
    const { status, body } = await service.admin.get(`/events?${query}`)
    assert.deepEqual([status, body.code], [400, 'invalid_request'], query)
  }
  for (const id of ['', 'x', '-1', '1.5', '1e3', '99999999999999999999']) {
    const stream = followStream(service.admin, '/events', { 'last-event-id': id })
    await assert.rejects(stream, /invalid_request/, id)
  }
})

test('a cursor beyond the end is rejected', async () => {
  const after = (await latest(service.admin)) + 1
  for (const query of [`after=${after}`, `after=${after}&wait=60`]) {
    const { status, body } = await service.admin.get(`/events?${query}`)
    assert.deepEqual([status, body.code], [400, 'invalid_request'])
    assert.match(body.detail, new RegExp(`whose last event is ${after - 1}`))
  }
  await assert.rejects(followStream(service.admin, `/events?after=${after}`), /invalid_request/)
})

test('a waiting request gets new events, and the link to continue', async () => {
  await newRepository('waited')
  const after = await latest(service.admin)
  const address = `/events?wait=60&after=${after}&repository=waited`
  const answers = Promise.all([service.admin.get(address), service.admin.get(address)])
  await project.git('push', '--quiet', service.admin.remote('waited'), 'main')
  for (const answer of await answers) {
    assert.deepEqual(
      answer.body.map(({ kind, repoName }: ReceivedEvent) => [kind, repoName]),
      [['push', 'waited']],
    )
    const [{ seq }] = answer.body
    assert.equal(nextOf(answer), `/events?wait=60&after=${seq}&repository=waited`)
  }
})

test('a waiting request without events gets an empty page, and a link beyond invisible events', async () => {
  const stranger = await service.client({ username: 'mallory', permissions: ['repo:read'] })
  const id = await newRepository('hidden')
  const after = await latest(service.admin)
  const waiting = stranger.get(`/events?wait=1&after=${after}`)
  await publishMany(3, id)
  const answer = await waiting
  assert.deepEqual([answer.status, answer.body], [200, []])
  assert.equal(nextOf(answer), `/events?wait=1&after=${after + 3}`)
})

test('a reader that sees nothing makes the server scan only a part of the log at a time', async () => {
  const stranger = await service.client({ username: 'mallory', permissions: ['repo:read'] })
  const id = await newRepository('busy')
  const start = await latest(service.admin)
  await publishMany(4500, id)
  const first = await stranger.get(`/events?after=${start}`)
  assert.deepEqual(first.body, [])
  assert.equal(nextOf(first), `/events?after=${start + 2000}`)
  // Who waits, or follows, gets past that by itself.
  await service.admin.post('/repos/busy/collaborators', { username: 'never' })
  await service.admin.post('/repos', { name: 'own' })
  await using stream = await follow(stranger, `?after=${start}`)
  const waiting = stranger.get(`/events?after=${start}&wait=60`)
  await service.admin.post('/repos/own/collaborators', { username: 'mallory' })
  await publishMany(1, (await service.admin.get('/repos/own')).body.id)
  // Which of its events they begin with depends on how far they had come when access was given.
  assert.equal((await waiting).body[0].repoName, 'own')
  assert.equal((await nextEvent(stream)).repoName, 'own')
})

test('a stream has all new events, in order', async () => {
  await newRepository('streamed')
  // The first push has an event of its own besides: the default branch.
  await project.git('push', '--quiet', service.admin.remote('streamed'), 'main:main')
  await using stream = await follow(service.admin, '?kind=push')
  assert.equal(stream.response.headers.get('content-type'), 'text/event-stream; charset=utf-8')
  assert.equal(stream.from, await latest(service.admin))
  const branches = Array.from({ length: 12 }, (_, index) => `refs/heads/b${index}`)
  const pushes = branches.map((ref) =>
    project.git('push', '--quiet', service.admin.remote('streamed'), `main:${ref}`),
  )
  await Promise.all(pushes)
  const received: ReceivedEvent[] = []
  while (received.length < branches.length) received.push(await nextEvent(stream))
  assert.deepEqual(received.map(({ data }) => data.ref).sort(), branches.sort())
  const seqs = received.map(({ seq }) => seq)
  assert.deepEqual(
    seqs,
    seqs.map((_, index) => (seqs[0] ?? 0) + index),
  )
})

test('a slow reader gets everything', exhaustive, async () => {
  const id = await newRepository('slow')
  const { port } = new URL(service.url)
  const socket = connect(Number(port), '127.0.0.1')
  socket
    .setEncoding('utf8')
    .write(
      `GET /events?kind=protection.added&follow=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${service.adminToken}\r\n\r\n`,
    )
  let text = ''
  socket.on('data', (some) => {
    text += some
  })
  await until('the stream has begun', () => text.includes('the events follow'))
  const [, from] = /\nid: (\d+)/.exec(text) ?? []
  socket.pause()
  const rounds = 15
  const perRound = 1000
  for (let round = 0; round < rounds; round++) await publishMany(perRound, id)
  socket.resume()
  const last = Number(from) + rounds * perRound
  await until('all of it has come', () => text.slice(-1000).includes(`id: ${last}\n`))
  socket.destroy()
  const ids = [...text.matchAll(/^event: protection\.added\nid: (\d+)$/gm)].map(([, seq]) =>
    Number(seq),
  )
  assert.deepEqual(
    ids,
    Array.from({ length: rounds * perRound }, (_, index) => Number(from) + 1 + index),
  )
})

test('a removed collaborator gets no later events', async () => {
  const id = await newRepository('left')
  await service.admin.post('/repos/left/collaborators', { username: 'grace' })
  const grace = await service.client({ username: 'grace', permissions: ['repo:read'] })
  await using everywhere = await follow(grace)
  await using here = await follow(grace, '?repository=left')
  await publishMany(1, id)
  const [first, same] = [await nextEvent(everywhere), await nextEvent(here)]
  assert.deepEqual(first, same)
  const waiting = grace.get(`/events?repository=left&after=${first.seq}&wait=60`)
  await service.admin.delete('/repos/left/collaborators/grace')
  await publishMany(1, id)
  // The next event that she gets is of a repository of hers.
  const owner = await service.client({ username: 'grace', permissions: ['repo:write'] })
  await newRepository('hers', owner)
  assert.equal((await nextEvent(everywhere)).repoName, 'hers')
  assert.deepEqual(await rest(here), [])
  assert.equal((await waiting).body.code, 'repository_not_found')
})

test('the stream of a deleted token ends', async () => {
  const id = await newRepository('shut')
  const permissions = ['admin']
  const client = await service.client({ username: 'root', permissions })
  await using stream = await follow(client, '?kind=protection.added')
  const waiting = client.get('/events?after=latest&wait=60&kind=protection.added')
  await service.admin.delete(`/tokens/${client.id}`)
  await publishMany(1, id)
  assert.deepEqual(await rest(stream), [])
  assert.equal((await waiting).status, 401)
})

test('the stream of an expired token ends, even without events', async () => {
  const client = await service.client({ username: 'ada' })
  await using stream = await follow(client)
  await service.db
    .updateTable('tokens')
    .set({ expiresAt: Date.now() })
    .where('id', '=', client.id)
    .execute()
  assert.deepEqual(await rest(stream), [])
  await assert.rejects(follow(client), /token_invalid/)
})

test('the stream of a repository ends with its deletion', async () => {
  const owner = await service.client({
    username: 'ada',
    permissions: ['repo:read', 'repo:write', 'repo:delete'],
  })
  await newRepository('ending', owner)
  await using stream = await follow(owner, '?repository=ending')
  await owner.patch('/repos/ending', { name: 'ended' })
  await owner.delete('/repos/ended')
  assert.deepEqual(
    (await rest(stream)).map(({ kind }) => kind),
    ['repository.renamed', 'repository.deleted'],
  )
})

test(
  'the number of waiting requests of a user is limited over all tokens, and disconnected ones do not count',
  exhaustive,
  async () => {
    const client = await service.client({ username: 'ada' })
    const delegates = await Promise.all(Array.from({ length: 10 }, () => delegateOf(client)))
    const openAll = () =>
      Array.from({ length: perUser }, (_, index) => follow(delegates[index % 10] ?? client))
    const streams = await Promise.all(openAll())
    for (const path of ['/events?follow=true', '/events?after=latest&wait=1']) {
      const refused = await client.get(path)
      assert.deepEqual([refused.status, refused.body.code], [429, 'too_many_followers'])
      assert.ok(Number(refused.headers.get('retry-after')) > 0)
    }
    assert.equal((await client.get('/events')).status, 200)
    const other = await service.client({ username: 'grace' })
    assert.equal((await other.get('/events?after=latest&wait=1')).status, 200)
    for (const stream of streams) await stream[Symbol.asyncDispose]()
    await until('all of them have gone', async () => {
      const again = await Promise.allSettled(openAll())
      for (const one of again)
        if (one.status === 'fulfilled') await one.value[Symbol.asyncDispose]()
      return again.every(({ status }) => status === 'fulfilled')
    })
  },
)

test('a HEAD request for a stream does not count as waiting', async () => {
  const client = await service.client({ username: 'ada' })
  for (let count = 0; count <= perUser; count++) {
    const head = await client.call('HEAD', '/events?follow=true')
    assert.deepEqual([head.status, head.text], [200, ''])
  }
})

test('pruned events are reported, and the others have no gap', async () => {
  await using aged = await startInProcess()
  const { admin, db } = aged
  await admin.post('/repos', { name: 'site' })
  const dayMs = 86_400_000
  await db
    .updateTable('events')
    .set({ createdAt: Date.now() - 91 * dayMs })
    .execute()
  const old = await latest(admin)
  await admin.put('/repos/site/protections/branches/a')
  await admin.put('/repos/site/protections/branches/b')
  // Maintenance and workflows read everything when they look.
  await db
    .updateTable('marks')
    .set({ value: old + 2 })
    .where('name', '!=', 'events')
    .execute()
  const clock = { now: () => Date.now() }
  const { signal } = new AbortController()
  await pruneEvents({ db, clock, keptDays: 90, oldestUndelivered: oldestUncomposed, signal })
  const kept = (await admin.get('/events')).body
  assert.deepEqual(
    kept.map(({ seq }: ReceivedEvent) => seq),
    [old + 1, old + 2],
  )
  assert.deepEqual((await admin.get('/events?after=0')).body, kept)
  assert.deepEqual((await admin.get(`/events?after=${old}`)).body, kept)
  const refused = await admin.get(`/events?after=${old - 1}`)
  assert.deepEqual([refused.status, refused.body.code], [410, 'events_forgotten'])
  assert.match(refused.body.detail, new RegExp(`The oldest event that is kept is ${old + 1};`))
  const lost = followStream(admin, '/events', { 'last-event-id': String(old - 1) })
  await assert.rejects(lost, /events_forgotten/)
})

test('events of commands on the server reach streams, too', exhaustive, async () => {
  await using running = await startService()
  await using stream = await follow(running.admin)
  const { PATH = '' } = process.env
  const env = { PATH, SVC_DATA_DIR: running.dataDir }
  await execute(launcher, ['tokens', 'create', '--name', 'ci'], { env })
  const received = await nextEvent(stream)
  assert.deepEqual([received.kind, received.seq], ['token.created', stream.from + 1])
})

test('events are the same on PostgreSQL', {
  ...exhaustive,
  skip: without('postgres'),
}, async () => {
  const { url, drop } = await createPostgresDatabase()
  {
    await using running = await startInProcess({ SVC_DATABASE_URL: url })
    const { admin } = running
    await newRepository('site', admin)
    await admin.post('/repos/site/collaborators', { username: 'grace' })
    const grace = await running.client({ username: 'grace' })
    await using all = await follow(admin, '?kind=push')
    await using hers = await follow(grace, '?after=0&kind=push')
    const waiting = grace.get(`/events?wait=60&after=${all.from}&kind=push`)
    const refs = ['refs/heads/a', 'refs/heads/b', 'refs/heads/c']
    for (const ref of refs)
      await project.git('push', '--quiet', admin.remote('site'), `main:${ref}`)
    for (const ref of refs) {
      const received = await nextEvent(all)
      assert.equal(received.data.ref, ref)
      assert.deepEqual(await nextEvent(hers), received)
    }
    assert.equal((await waiting).body[0].kind, 'push')
    await admin.delete('/repos/site/collaborators/grace')
    await admin.delete(`/tokens/${grace.id}`)
    assert.deepEqual(await rest(hers), [])
  }
  await drop()
})

test('a stop of the server ends waiting requests, each with its cursor', async () => {
  const stopped = await startInProcess()
  const { admin } = stopped
  await using stream = await follow(admin)
  const waiting = admin.get('/events?after=latest&wait=60')
  const next = admin.get('/events?after=latest&wait=60')
  await until('the server answers', async () => (await admin.get('/health')).status === 200)
  await stopped[Symbol.asyncDispose]()
  assert.deepEqual(await rest(stream), [])
  for (const answer of [await waiting, await next]) {
    assert.deepEqual([answer.status, answer.body], [200, []])
    assert.match(nextOf(answer), /after=\d+/)
  }
})

test(
  'a client that resumes from its last id gets each push once, however often the server is killed',
  exhaustive,
  async () => {
    await using first = await startService()
    const { dataDir, adminToken } = first
    let running = first
    await running.admin.post('/repos', { name: 'site' })
    let stream = await follow(running.admin, '?kind=push')
    let lastId = String(stream.from)
    const received: string[] = []
    const read = async (count: number) => {
      for (let read = 0; read < count; read++) {
        const event = await nextEvent(stream)
        lastId = String(event.seq)
        received.push(event.data.ref)
      }
    }
    const pushed: string[] = []
    const rounds = 4
    for (let round = 0; round < rounds; round++) {
      for (const name of ['a', 'b', 'c']) {
        const ref = `refs/heads/${name}${round}`
        await project.git('push', '--quiet', running.admin.remote('site'), `main:${ref}`)
        pushed.push(ref)
      }
      await read(round % 3)
      await running.end('SIGKILL')
      await stream[Symbol.asyncDispose]()
      running = await startService({ dataDir, env: { SVC_ADMIN_TOKEN: adminToken } })
      stream = await follow(running.admin, '?kind=push', { 'last-event-id': lastId })
      assert.equal(String(stream.from), lastId)
    }
    await read(pushed.length - received.length)
    await running.end('SIGTERM')
    assert.deepEqual(await rest(stream), [])
    assert.deepEqual(received, pushed)
  },
)
