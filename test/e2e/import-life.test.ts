// Tags: exhaustive, each-store

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, git, type Project } from '../support/git.ts'
import { assertSameContent, createNoisyProject, startGate } from '../support/import-sources.ts'
import { importAsync, requestImport } from '../support/imports.ts'
import { untilTidy } from '../support/leftovers.ts'
import { importingGits, signal } from '../support/processes.ts'
import { without } from '../support/programs.ts'
import { connectRaw } from '../support/raw-http.ts'
import { type Client, type Service, startServiceWithSsh } from '../support/service.ts'
import { createSshUser } from '../support/ssh-user.ts'
import { openTables } from '../support/tables.ts'

const mib = 1024 * 1024

let source: Service
let project: Project
let service: Service

before(async () => {
  source = await startServiceWithSsh()
  project = await createNoisyProject()
  await source.admin.post('/repos', { name: 'noisy' })
  await project.git('push', '--quiet', source.admin.remote('noisy'), 'main')
  service = await startServiceWithSsh()
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
  await source[Symbol.asyncDispose]()
})

/** A proxy to the source that stops after a number of bytes of a response. */
async function gated(bytes: number) {
  const { port } = new URL(source.url)
  const gate = await startGate(Number(port), bytes)
  const address = `http://git:${source.adminToken}@127.0.0.1:${gate.port}/repos/noisy.git`
  return { gate, address, [Symbol.dispose]: () => gate[Symbol.dispose]() }
}

test(
  'an asynchronous import is shown with its progress until it completes',
  exhaustive,
  async () => {
    using way = await gated(mib)
    const wanted = { source: way.address, name: 'watched' }
    const started = await requestImport(service.url, service.admin, wanted, {
      prefer: 'respond-async',
    })
    assert.equal(started.status, 202, started.text)
    assert.equal(started.headers.get('location'), '/repos/watched')
    assert.equal(started.headers.get('preference-applied'), 'respond-async')
    const { state, import: at } = started.body
    assert.deepEqual([state, at.progress, at.fault], ['importing', 0, null])
    assert.equal(at.source, way.address.replace(/git:.*@/, ''))

    await way.gate.untilHeld()
    const early = await progressBeyond('watched', 10)
    way.gate.open(4 * mib)
    const later = await progressBeyond('watched', early)
    assert.ok(early < later && later < 75, `${early}, then ${later}`)
    const [listed] = (await service.admin.get('/repos')).body
    assert.deepEqual([listed.name, listed.state], ['watched', 'importing'])

    way.gate.open()
    const ready = await untilReady('watched')
    assert.equal(ready.import, null)
    await assertSameContent(ready.path, `${project.path}/.git`)
    assert.equal((await service.admin.get('/repos')).body[0].state, 'ready')
    await service.admin.delete('/repos/watched')
  },
)

test('the header Prefer is parsed as in RFC 7240', async () => {
  const spellings: [string | undefined, number][] = [
    ['respond-async', 202],
    ['Respond-Async', 202],
    ['wait=10, respond-async', 202],
    ['respond-async;foo=bar , handling=lenient', 202],
    ['respond-async, wait=100', 202],
    [undefined, 201],
    ['', 201],
    ['wait=10', 201],
    ['return=minimal', 201],
    ['respond-asynchronously', 201],
    ['foo="respond-async"', 201],
    ['foo="a, respond-async, b"', 201],
  ]
  await using small = await createProject()
  for (const [prefer, expected] of spellings) {
    const wanted = { source: small.path, name: 'preferred' }
    const options = prefer === undefined ? {} : { prefer }
    const answer = await requestImport(service.url, service.admin, wanted, options)
    assert.equal(answer.status, expected, `${prefer}: ${answer.text}`)
    const applied = answer.headers.get('preference-applied')
    assert.equal(applied, expected === 202 ? 'respond-async' : null)
    await untilReady('preferred')
    await service.admin.delete('/repos/preferred')
  }
})

test('a repository that is being imported can only be read in the API and deleted', async () => {
  using way = await gated(0)
  await using project = await createNoisyProject({ files: 1 })
  await importAsync(service.admin, { source: way.address, name: 'busy' })
  const { admin } = service
  const refused = [
    admin.patch('/repos/busy', { name: 'other' }),
    admin.get('/repos/busy/protections/branches'),
    admin.put('/repos/busy/protections/branches/main'),
    admin.delete('/repos/busy/protections/branches/main'),
    admin.get('/repos/busy/collaborators'),
    admin.post('/repos/busy/collaborators', { username: 'ada' }),
    admin.delete('/repos/busy/collaborators/ada'),
    admin.get('/repos/busy.git/info/refs?service=git-upload-pack'),
    admin.get('/repos/busy.git/info/refs?service=git-receive-pack'),
  ]
  for (const { status, text } of await Promise.all(refused)) {
    assert.equal(status, 409, text)
    assert.match(text, /busy\\?" is still being imported\. GET \/repos\/busy shows the progress/)
  }
  for (const words of [
    ['clone', admin.remote('busy'), 'clone'],
    ['push', admin.remote('busy'), 'main'],
  ]) {
    await assert.rejects(project.git(...words), /is still being imported/)
  }
  assert.equal((await admin.get('/repos/busy')).body.state, 'importing')
  assert.equal((await admin.delete('/repos/busy')).status, 204)
})

test('over SSH an import is listed and described, and Git is rejected', {
  skip: without('openssh'),
}, async () => {
  using way = await gated(0)
  await importAsync(service.admin, { source: way.address, name: 'busy' })
  await using user = await createSshUser(service, service.admin)
  const list = await user.ssh('repos --json')
  assert.deepEqual(JSON.parse(list.stdout)[0].state, 'importing')
  assert.match((await user.ssh('repos')).stdout, /^busy\b/)
  for (const line of ['info busy', 'info busy --json']) {
    const result = await user.ssh(line)
    assert.equal(result.exitCode, 1)
    assert.match(result.stderr, /^svc: "busy" is still being imported/)
  }
  const cloned = await user.tryGit('/', 'ls-remote', user.remote('busy'))
  assert.equal(cloned.exitCode, 128)
  assert.match(cloned.stderr, /"busy" is still being imported/)
  await service.admin.delete('/repos/busy')
})

test('a running import is visible only to its owner and admins', async () => {
  using way = await gated(0)
  const ada = await service.client({ username: 'ada' })
  const twin = await service.client({ username: 'ada' })
  const bob = await service.client({ username: 'bob', permissions: ['repo:read', 'repo:delete'] })
  await importAsync(ada, { source: way.address, name: 'of-ada' })
  for (const who of [ada, twin, service.admin]) {
    assert.equal((await who.get('/repos/of-ada')).body.state, 'importing')
    assert.equal((await who.get('/repos')).body.length, 1)
  }
  assert.equal((await bob.get('/repos/of-ada')).status, 404)
  assert.equal((await bob.delete('/repos/of-ada')).status, 404)
  assert.deepEqual((await bob.get('/repos')).body, [])
  await service.admin.delete('/repos/of-ada')
})

test('deleting a repository that is being imported ends the import and frees the name', async () => {
  using way = await gated(mib)
  const { id } = await importAsync(service.admin, { source: way.address, name: 'given-up' })
  await way.gate.untilHeld()
  assert.equal((await service.admin.delete('/repos/given-up')).status, 204)
  assert.equal((await service.admin.get('/repos/given-up')).status, 404)
  assert.equal((await service.admin.post('/repos', { name: 'given-up' })).status, 201)
  await untilNothingIsLeft(way.gate)
  assert.equal((await service.admin.get('/repos/given-up')).body.state, 'ready')
  using tables = openTables(service.dataDir)
  assert.deepEqual(tables.rows('imports'), [])
  assert.deepEqual(
    tables.events(id).map(({ kind }) => kind),
    ['repository.deleted'],
  )
  await service.admin.delete('/repos/given-up')
})

test('the git processes of a deleted import do not survive a crash', async () => {
  using way = await gated(mib)
  await using dying = await startServiceWithSsh()
  await importAsync(dying.admin, { source: way.address, name: 'given-up' })
  await way.gate.untilHeld()
  const gits = await until('gits import', () => {
    const found = importingGits(dying.dataDir)
    return found.length > 0 && found
  })
  for (const pid of gits) signal(pid, 'SIGSTOP')
  assert.equal((await dying.admin.delete('/repos/given-up')).status, 204)
  await dying.end('SIGKILL')
  const { dataDir, adminToken } = dying
  await using again = await startServiceWithSsh({ dataDir, env: { SVC_ADMIN_TOKEN: adminToken } })
  assert.deepEqual(importingGits(dataDir), [])
  await untilTidy(dataDir)
  assert.equal((await again.admin.get('/repos/given-up')).status, 404)
})

test('disconnecting ends only a synchronous import', async () => {
  using way = await gated(mib)
  const gone = new AbortController()
  const waited = requestImport(
    service.url,
    service.admin,
    { source: way.address, name: 'waited' },
    { signal: gone.signal },
  )
  await way.gate.untilHeld()
  assert.equal((await service.admin.get('/repos/waited')).body.state, 'importing')
  gone.abort()
  await assert.rejects(waited)
  await until('its name is free', async () => {
    return (await service.admin.get('/repos/waited')).status === 404
  })
  await untilNothingIsLeft(way.gate)

  // This client reads its answer, and hangs up then.
  using connection = await connectRaw(service.url)
  const body = JSON.stringify({ source: way.address, name: 'unwatched' })
  connection.request('POST /repos/import', {
    authorization: `Bearer ${service.adminToken}`,
    'content-type': 'application/json',
    'content-length': body.length,
    prefer: 'respond-async',
  })
  connection.socket.write(body)
  assert.equal((await connection.answer()).status, 202)
  connection.socket.destroy()
  await way.gate.untilHeld()
  way.gate.open()
  await untilReady('unwatched')
  await service.admin.delete('/repos/unwatched')
})

test('a failed import is shown to its owner and admins, until it is deleted or retried', async () => {
  const ada = await service.client({
    username: 'ada',
    permissions: ['repo:read', 'repo:write', 'repo:delete'],
  })
  const bob = await service.client({ username: 'bob' })
  const wanted = { source: `http://me:hidden@127.0.0.1:9/x.git`, name: 'failed' }
  const fail = async (who: Client) => {
    await importAsync(who, wanted)
    return until('the import has failed', async () => {
      const { body } = await who.get('/repos/failed')
      return body.state === 'failed' && body
    })
  }
  const result = await fail(ada)
  assert.deepEqual(result.import.fault, {
    code: 'import_failed',
    detail: 'The source cannot be reached: the connection was refused.',
  })
  assert.equal(result.import.source, 'http://127.0.0.1:9/x.git')
  assert.equal((await service.admin.get('/repos/failed')).body.state, 'failed')
  assert.equal((await bob.get('/repos/failed')).status, 404)
  assert.deepEqual((await service.admin.get('/repos')).body, [])
  const clone = git('/', ['ls-remote', ada.remote('failed')])
  await assert.rejects(clone, /no repository "failed"/)
  assert.equal((await bob.delete('/repos/failed')).status, 403)
  assert.equal((await ada.delete('/repos/failed')).status, 204)
  assert.equal((await ada.get('/repos/failed')).status, 404)

  await fail(ada)
  // The name is free; its next owner does not learn of the failure.
  assert.equal((await bob.post('/repos', { name: 'Failed' })).status, 201)
  assert.equal((await ada.get('/repos/failed')).status, 404)
  await service.admin.delete('/repos/Failed')
  await fail(ada)
  await requestImport(service.url, ada, wanted)
  assert.equal((await ada.get('/repos/failed')).status, 404)
})

test('nothing is created for a token that was deleted during its import', async () => {
  using way = await gated(mib)
  const ada = await service.client({ username: 'ada' })
  const waiting = requestImport(service.url, ada, { source: way.address, name: 'orphan' })
  await way.gate.untilHeld()
  assert.equal((await service.admin.delete(`/tokens/${ada.id}`)).status, 204)
  way.gate.open()
  const answer = await waiting
  assert.deepEqual([answer.status, answer.body.code], [401, 'token_invalid'])
  assert.equal((await service.admin.get('/repos/orphan')).status, 404)
  await untilNothingIsLeft(way.gate)
  assert.equal((await service.admin.post('/repos', { name: 'orphan' })).status, 201)
  await service.admin.delete('/repos/orphan')
})

test('imports beyond the concurrency limit wait, or are rejected', async () => {
  using way = await gated(0)
  const env = { SVC_IMPORTS_AT_ONCE: '1', SVC_GIT_WAITING: '1' }
  await using small = await startServiceWithSsh({ env })
  const post = (name: string) =>
    requestImport(
      small.url,
      small.admin,
      { source: way.address, name },
      { prefer: 'respond-async' },
    )
  assert.equal((await post('first')).status, 202)
  const attempts = ['second', 'third'].map(async (name) => ({ name, answer: await post(name) }))
  const refused = await Promise.race(attempts)
  assert.equal(refused.answer.status, 503, refused.answer.text)
  assert.equal(refused.answer.body.code, 'git_busy')
  assert.equal(refused.answer.headers.get('retry-after'), '10')
  for (const name of ['second', 'third']) {
    assert.equal((await small.admin.get(`/repos/${name}`)).status, 404)
  }
  way.gate.open()
  for (const { name, answer } of await Promise.all(attempts)) {
    if (name === refused.name) continue
    assert.equal(answer.status, 202, answer.text)
    await untilReady(name, small)
  }
})

test('a stop fails synchronous imports, and records asynchronous ones as failed', async () => {
  using way = await gated(mib)
  // Imports are cut off after nine tenths of the time; the responses have the rest.
  await using stopping = await startServiceWithSsh({ env: { SVC_STOP_SECONDS: '10' } })
  const { admin, dataDir, adminToken, url } = stopping
  await importAsync(admin, { source: way.address, name: 'unwatched' })
  const waited = requestImport(url, admin, { source: way.address, name: 'waited' })
  await until('both are running', () => way.gate.connections() >= 2)
  assert.equal(await stopping.end('SIGTERM'), 0)
  const answer = await waited
  assert.deepEqual([answer.status, answer.body.code], [422, 'import_failed'])
  assert.match(answer.body.detail, /interrupted because the service stopped\. Start it again/)
  await using again = await startServiceWithSsh({ dataDir, env: { SVC_ADMIN_TOKEN: adminToken } })
  const { body } = await again.admin.get('/repos/unwatched')
  assert.equal(body.state, 'failed')
  assert.match(body.import.fault.detail, /interrupted because the service stopped\. Start it again/)
  assert.equal((await again.admin.get('/repos/waited')).status, 404)
  await untilTidy(dataDir)
})

test('a stop lets an almost complete import finish', async () => {
  using way = await gated(mib)
  await using stopping = await startServiceWithSsh({ env: { SVC_STOP_SECONDS: '3600' } })
  const waited = requestImport(stopping.url, stopping.admin, { source: way.address, name: 'last' })
  await way.gate.untilHeld()
  signal(stopping.pid, 'SIGTERM')
  await until('it is stopping', () => /"stopping; /.test(stopping.log()))
  way.gate.open()
  assert.equal((await waited).status, 201)
  assert.equal(await stopping.end('SIGCONT'), 0)
})

async function progressBeyond(name: string, least: number): Promise<number> {
  return until(`${name} is further than ${least} %`, async () => {
    const { body } = await service.admin.get(`/repos/${name}`)
    return body.import?.progress > least && body.import.progress
  })
}

async function untilReady(name: string, { admin }: Service = service) {
  return until(`${name} is ready`, async () => {
    const { body, text } = await admin.get(`/repos/${name}`)
    assert.notEqual(body.state, 'failed', text)
    return body.state === 'ready' && body
  })
}

async function untilNothingIsLeft(gate: { connections: () => number }): Promise<void> {
  await until('all fetches have ended', () => gate.connections() === 0)
  await until('no git is left', () => importingGits(service.dataDir).length === 0)
  await untilTidy(service.dataDir)
}
