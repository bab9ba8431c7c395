// Tags: each-store

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { test } from 'node:test'
import { permissions } from '#access/permissions.ts'
import { visibilities } from '#access/visibility.ts'
import { followStream } from '../support/event-stream.ts'
import { createProject } from '../support/git.ts'
import { createPageClient, logIn } from '../support/page-client.ts'
import { createClient, startService, startServiceWithSsh, toAnswer } from '../support/service.ts'
import { createSshUser } from '../support/ssh-user.ts'

const everything = permissions.filter((one) => one !== 'admin')
const object = 'an object of Git LFS'
const oid = createHash('sha256').update(object).digest('hex')
const pointer = { oid, size: object.length }

/** Requests that only read, each with the status of a public repository. */
const reading: [path: string, status: number, init?: RequestInit][] = [
  ['info/refs?service=git-upload-pack', 200],
  ['git-upload-pack', 200, posted('application/x-git-upload-pack-request', '0000')],
  [
    'git-upload-archive',
    200,
    posted('application/x-git-upload-archive-request', '0012argument HEAD\n0000'),
  ],
  ['info/lfs/objects/batch', 200, batch('download')],
  [`info/lfs/objects/${oid}`, 200],
]

/** Requests that need more, or are not valid. */
const others: typeof reading = [
  ['info/refs?service=git-receive-pack', 401],
  ['info/refs?service=none', 401],
  ['info/refs', 401],
  ['git-receive-pack', 401, posted('application/x-git-receive-pack-request', '0000')],
  ['info/lfs/objects/batch', 401, batch('upload')],
  [`info/lfs/objects/${oid}`, 401, { method: 'PUT', body: object }],
  ['info/lfs/locks', 401],
]

function posted(type: string, body: string): RequestInit {
  return { method: 'POST', body, headers: { 'content-type': type } }
}

function batch(operation: string): RequestInit {
  const type = 'application/vnd.git-lfs+json'
  return posted(type, JSON.stringify({ operation, objects: [pointer] }))
}

test('a public repository is open without a login, until it is made private', async () => {
  await using service = await startServiceWithSsh()
  await using project = await createProject()
  const { url, admin } = service
  const owner = await service.client({ username: 'ada', permissions: everything })
  await using anonymous = await createSshUser(service, undefined, { user: 'anonymous' })
  await project.commit('a.txt')
  for (const visibility of visibilities) {
    const { body } = await owner.post('/repos', { name: visibility, visibility })
    assert.equal(body.visibility, visibility)
    await project.git('push', '--quiet', owner.remote(visibility), 'main')
    const put = await fetch(`${url}/repos/${visibility}.git/info/lfs/objects/${oid}`, {
      method: 'PUT',
      body: object,
      headers: { authorization: `Bearer ${owner.token}` },
    })
    assert.equal(put.status, 200, await put.text())
  }

  const ask = async (name: string, [path, , init]: (typeof reading)[number]) => {
    const response = await fetch(`${url}/repos/${name}.git/${path}`, init ?? {})
    const headers = new Headers(response.headers)
    for (const one of ['x-request-id', 'date']) headers.delete(one)
    const { status } = response
    return { status, headers: [...headers], text: await response.text() }
  }
  for (const request of [...reading, ...others]) {
    const absent = await ask('missing', request)
    assert.equal(absent.status, 401, request[0])
    for (const name of ['private', 'internal'])
      assert.deepEqual(await ask(name, request), absent, `${name} ${request[0]}`)
    const open = await ask('public', request)
    assert.equal(open.status, request[1], `${request[0]} ${open.text}`)
    if (open.status === 401) assert.deepEqual(open, absent)
  }
  const { text } = await ask('public', ['info/lfs/objects/batch', 200, batch('download')])
  assert.doesNotMatch(text, /Authorization|error/)
  const clone = join(project.path, 'clone')
  await project.git('clone', '--quiet', `${url}/repos/public.git`, clone)
  await owner.patch('/repos/public', { name: 'open' })
  await project.git('-C', clone, 'fetch', '--quiet')
  await owner.patch('/repos/open', { name: 'public' })
  for (const path of ['/repos', '/repos/public', '/events', '/repos/public/tree'])
    assert.equal((await toAnswer(await fetch(url + path))).body.code, 'token_required')

  await anonymous.git(project.path, 'ls-remote', anonymous.remote('public'))
  for (const name of ['private', 'internal', 'missing']) {
    const ended = await anonymous.ssh(`git-upload-pack '/${name}.git'`)
    assert.match(ended.stderr, /does not appear to be a git repository/, name)
  }
  assert.match((await anonymous.ssh('repos')).stdout, /^public +\S+[^\n]*\n$/)
  assert.match((await anonymous.ssh('')).stdout, /you may read public repositories/)
  const { stdout: info } = await anonymous.ssh('info public --json')
  const { stdout: repos } = await anonymous.ssh('repos --json')
  const { body: shown } = await owner.get('/repos/public')
  assert.ok(shown.path.startsWith('/') && shown.ownerTokenId === owner.id)
  for (const described of [JSON.parse(info), ...JSON.parse(repos)])
    assert.deepEqual([described.path, described.ownerTokenId], ['', ''])
  assert.doesNotMatch((await anonymous.ssh('info public')).stdout, /Owner token/)

  const visitor = createPageClient(url)
  const home = await visitor.get('/')
  assert.match(home.text, /\/r\/public"/)
  assert.doesNotMatch(home.text, /\/r\/(private|internal)"/)
  assert.match((await visitor.get('/robots.txt')).text, /^Allow: \/r\/$/m)
  const pages = ['', '/src/main:a.txt', '/log/main', '/branches', '/archive/main.zip']
  for (const page of pages) {
    for (const name of ['private', 'internal', 'missing']) {
      const { status, location } = await visitor.get(`/r/${name}${page}`)
      assert.match(`${status} ${location}`, /^303 \/-\/login/, `${name}${page}`)
    }
    const shown = await visitor.get(`/r/public${page}`)
    assert.equal(shown.status, 200, page)
    assert.doesNotMatch(shown.headers.get('cache-control') ?? '', /public/)
  }
  for (const page of ['/settings', '/runs', '/pushes', '/webhooks'])
    assert.match((await visitor.get(`/r/public${page}`)).location ?? '', /^\/-\/login/, page)

  const eve = await service.client({ username: 'eve', permissions: everything })
  const session = await logIn(url, eve.token)
  assert.doesNotMatch((await session.get('/')).text, /\/r\/private"/)
  for (const name of ['internal', 'public'])
    for (const page of [...pages, '/runs', '/pushes', '/settings'])
      assert.equal((await session.get(`/r/${name}${page}`)).status, 200, `${name}${page}`)
  assert.equal((await session.get('/r/private')).status, 404)
  for (const path of ['/repos', '/activity']) {
    const { body } = await eve.get(path)
    const names = body.map(({ name, visibility }: Record<string, string>) => [name, visibility])
    assert.deepEqual(names.sort(), [
      ['internal', 'internal'],
      ['public', 'public'],
    ])
  }
  for (const one of [...(await eve.get('/repos')).body, (await eve.get('/repos/public')).body])
    assert.deepEqual([one.path, one.ownerTokenId], ['', ''])
  await owner.post('/repos/public/collaborators', { username: 'grace' })
  const grace = await service.client({ username: 'grace', permissions: everything })
  assert.equal((await grace.get('/repos')).body[1].path, shown.path)
  await owner.put('/repos/public/secrets/TOKEN', { value: 'hush-hush' })
  const { body: events } = await eve.get('/events?limit=1000')
  const seen = new Set(events.map(({ kind }: { kind: string }) => kind.split('.')[0]))
  assert.deepEqual([...seen].sort(), ['push', 'repository'])

  await using stream = await followStream(eve, '/events?repository=public')
  const waiting = eve.get('/events?repository=public&after=latest&wait=60')
  await stream.next()
  await owner.patch('/repos/public', { visibility: 'private' })
  let received = await stream.next()
  while (received) {
    assert.doesNotMatch(received.data, /visibility/)
    received = await stream.next()
  }
  assert.equal((await waiting).body.code, 'repository_not_found')
  for (const request of [...reading, ...others])
    assert.deepEqual(await ask('public', request), await ask('missing', request), request[0])
  for (const page of [...pages, '/tags'].map((path) => `/r/public${path}`).concat('/'))
    assert.match((await visitor.get(page)).location ?? '', /^\/-\/login/, page)
  assert.equal((await visitor.get('/robots.txt')).text, 'User-agent: *\nDisallow: /\n')
  assert.match((await anonymous.ssh('repos')).stderr, /The SSH user of this service is svc/)
  assert.equal((await eve.get('/repos/public')).status, 404)
  const { body } = await admin.get('/audit?action=repository.visibility')
  assert.deepEqual(body[0].data, { visibility: 'private', formerVisibility: 'public' })
})

test('a repository is transferred, and its former owner loses its rights', async () => {
  await using service = await startService()
  const { admin, url } = service
  const [owner, grace, max] = await Promise.all(
    ['ada', 'grace', 'max'].map((username) =>
      service.client({ username, permissions: everything }),
    ),
  )
  assert.ok(owner && grace && max)
  await owner.post('/repos', { name: 'site' })
  await owner.post('/repos', { name: 'kept' })
  await owner.post('/repos/site/collaborators', { username: 'max', role: 'maintain' })
  const { body: limited } = await admin.post('/tokens', {
    ...{ name: 'x', username: 'ada', permissions: ['repo:read', 'repo:write'] },
    repositories: ['site'],
  })
  const ofPart = createClient(url, limited.token)
  const { body: delegated } = await owner.post('/tokens/delegate', { name: 'x' })
  const transfer = (by = owner, ownerUsername = 'grace') =>
    by.patch('/repos/site', { ownerUsername })
  for (const [by, to, code] of [
    [max, 'grace', 'owner_required'],
    [grace, 'grace', 'repository_not_found'],
    [ofPart, 'grace', 'token_limited'],
    [createClient(url, delegated.token), 'grace', 'token_limited'],
    [owner, 'nobody', 'invalid_request'],
  ] as const)
    assert.equal((await transfer(by, to)).body.code, code, `${code} ${to}`)
  await admin.patch('/users/grace', { disabled: true })
  const disabled = await transfer()
  assert.match(disabled.body.detail, /\/ownerUsername must be .* who is not disabled/)
  await admin.patch('/users/grace', { disabled: false })
  const refused = await admin.delete('/users/ada')
  assert.match(refused.body.detail, /owns site, kept\. Transfer them/)

  await using stream = await followStream(owner, '/events?repository=site')
  await stream.next()
  const { body: before } = await owner.get('/repos/site')
  const { status, body } = await transfer()
  assert.deepEqual([status, body.ownerUsername], [200, 'grace'])
  assert.equal(body.ownerTokenId, before.ownerTokenId)
  while (await stream.next());
  assert.match(stream.comments.at(-1) ?? '', /repository/)
  for (const one of [owner, ofPart])
    assert.equal((await one.get('/repos/site')).body.code, 'repository_not_found')
  assert.equal((await grace.get('/repos/site')).body.role, 'admin')
  assert.equal((await max.get('/repos/site')).body.role, 'maintain')
  const { body: events } = await grace.get('/events?kind=repository.transferred')
  assert.deepEqual(
    events.map(({ data, actor }: { data: object; actor: object }) => [data, actor]),
    [
      [
        { ownerUsername: 'grace', formerOwnerUsername: 'ada' },
        { id: owner.id, username: 'ada' },
      ],
    ],
  )
  assert.equal((await transfer(grace)).status, 200)
  assert.equal((await admin.patch('/repos/kept', { ownerUsername: 'max' })).status, 200)
  assert.equal((await admin.delete('/users/ada')).status, 204)
})
