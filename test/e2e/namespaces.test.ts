// Tags: each-store
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createProject, type Project } from '../support/git.ts'
import { logIn } from '../support/page-client.ts'
import { without } from '../support/programs.ts'
import { type Client, createClient, type Service, startServiceWithSsh } from '../support/service.ts'
import { createSshUser } from '../support/ssh-user.ts'

let service: Service
let project: Project
let admin: Client
let ada: Client
let eve: Client

before(async () => {
  service = await startServiceWithSsh({ env: { SVC_NAMESPACE_CREATORS: 'ada, group:leads' } })
  project = await createProject()
  await project.commit('readme.md', '# Site')
  admin = service.admin
  ada = await service.client({ username: 'ada', permissions: ['everything'] })
  eve = await service.client({ username: 'eve', permissions: ['everything'] })
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

const api = (name: string) => `/repos/${encodeURIComponent(name)}`

/** A namespace of ada's with a repository that has a commit. */
async function namespace(name: string, repository = 'site'): Promise<string> {
  const made = await ada.post('/namespaces', { name })
  assert.equal(made.status, 201, made.text)
  const { status, text } = await ada.post('/repos', { name: `${name}/${repository}` })
  assert.equal(status, 201, text)
  await project.git('push', '--quiet', ada.remote(`${name}/${repository}`), 'HEAD:main')
  return `${name}/${repository}`
}

test('a repository in a namespace has one name over the API, Git, pages and SSH', {
  skip: without('openssh'),
}, async () => {
  const name = await namespace('acme')
  const { body, status } = await ada.get(api(name))
  assert.deepEqual([status, body.name, body.ownerUsername], [200, 'acme/site', 'ada'])
  assert.equal(body.cloneUrls.http, `${service.url}/repos/acme/site.git`)
  assert.match(body.cloneUrls.ssh, /\/acme\/site\.git$/)
  for (const path of [
    '/repos/acme/site',
    '/repos/acme%252Fsite',
    '/repos/acme%5Csite',
    '/repos/acme%2F..',
    '/repos/acme%2Fx%2Fsite',
    '/namespaces/acme%00',
    '/namespaces/acme%2Fsite',
  ])
    assert.equal((await ada.get(path)).status, 404, path)
  const branches = await ada.get(`${api(name)}/branches?limit=1`)
  assert.equal(branches.body[0].name, 'main')
  await ada.put(`${api(name)}/secrets/TOKEN`, { value: 'x' })
  await using copy = await createProject()
  await copy.git('clone', '--quiet', ada.remote(name))
  assert.equal(
    await copy.git('-C', 'site', 'rev-parse', 'HEAD'),
    await project.git('rev-parse', 'HEAD'),
  )
  await using user = await createSshUser(service, ada)
  await user.git(copy.path, 'clone', '--quiet', user.remote(name), 'over-ssh')
  await user.git(`${copy.path}/over-ssh`, 'push', '--quiet', 'origin', 'HEAD:refs/heads/ssh')
  assert.match((await user.ssh('repos')).stdout, /acme\/site/)
  assert.match((await user.ssh(`info ${name}`)).stdout, /^Name: acme\/site\n/)

  const pages = await logIn(service.url, ada.token)
  for (const path of ['', '/src/main', '/log', '/settings', '/branches', '/src/HEAD'])
    assert.ok([200, 303].includes((await pages.get(`/r/acme/site${path}`)).status), path)
  assert.match((await pages.get('/r/acme/site')).text, /acme\/site/)
  assert.equal((await pages.get('/r/acme')).location, '/-/namespaces/acme')
  assert.match((await pages.get('/-/namespaces/acme')).text, /href="\/r\/acme\/site"/)
  assert.match((await pages.get('/')).text, /href="\/-\/namespaces\/acme"/)
  // A name that is that of a page.
  await ada.post('/repos', { name: 'acme/settings' })
  await ada.post('/repos', { name: 'plain' })
  assert.match((await pages.get('/r/acme/settings')).text, /acme\/settings/)
  assert.match((await pages.get('/r/acme/settings/settings')).text, /acme\/settings/)
  assert.match((await pages.get('/r/plain/settings')).text, /plain/)
  const address = `${service.url.replace('//', `//git:${ada.token}@`)}/r/acme/site`
  assert.match(await project.git('ls-remote', address), /refs\/heads\/main/)
  const archive = await ada.get(`${api(name)}/archive`)
  assert.match(archive.headers.get('content-disposition') ?? '', /filename="site-main\.tar\.gz"/)
})

test('namespaces and repositories have one set of names', async () => {
  await namespace('one')
  for (const name of ['one', 'ONE']) {
    const taken = await eve.post('/repos', { name })
    assert.deepEqual([taken.status, taken.body.code], [409, 'repository_name_taken'])
    const twice = await admin.post('/namespaces', { name })
    assert.deepEqual([twice.status, twice.body.code], [409, 'namespace_name_taken'])
  }
  await eve.post('/repos', { name: 'alone' })
  assert.equal((await ada.post('/namespaces', { name: 'Alone' })).status, 409)
  assert.equal((await ada.patch('/namespaces/one', { name: 'alone' })).status, 409)
  assert.equal(
    (await ada.post('/repos/import', { name: 'One', source: 'http://127.0.0.1:9/x' })).status,
    409,
  )
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, index) =>
      index % 2 === 0
        ? admin.post('/namespaces', { name: 'raced' })
        : eve.post('/repos', { name: 'raced' }),
    ),
  )
  assert.equal(answers.filter(({ status }) => status === 201).length, 1)
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([201, 409]))
})

test('a namespace gets the name of a user from that user or an admin', async () => {
  for (const name of ['eve', 'Eve']) {
    const { status, body } = await ada.post('/namespaces', { name })
    assert.deepEqual([status, body.code], [409, 'namespace_name_taken'])
    assert.match(body.detail, /is the name of a user/)
  }
  assert.equal((await ada.post('/namespaces', { name: 'Ada' })).status, 201)
  assert.match((await ada.patch('/namespaces/Ada', { name: 'eve' })).body.detail, /name of a user/)
  assert.equal((await admin.patch('/namespaces/Ada', { name: 'eve' })).status, 200)
})

test('a former name that reads as the page of another repository leads to its own', async () => {
  await namespace('moved', 'log')
  await ada.patch(api('moved/log'), { name: 'moved/kept' })
  const pages = await logIn(service.url, ada.token)
  assert.equal((await pages.get('/r/moved/log')).location, '/r/moved/kept')
  assert.equal((await pages.get('/r/moved/log/branches')).location, '/r/moved/kept/branches')
  assert.equal((await pages.get('/r/moved/branches')).status, 404)
  await ada.patch(api('moved/kept'), { name: 'elsewhere' })
  assert.equal((await ada.delete('/namespaces/moved')).status, 204)
  await ada.post('/repos', { name: 'moved' })
  assert.notEqual((await pages.get('/r/moved/log')).location, '/r/elsewhere')
  const others = await logIn(service.url, eve.token)
  assert.equal((await others.get('/r/moved/log')).status, 404)
})

test('to rename or delete a repository of a namespace takes the role maintain', async () => {
  const name = await namespace('held')
  const member = '/namespaces/held/members/eve'
  await ada.put(member, { role: 'write' })
  const rename = () => eve.patch(api(name), { name: 'held/mine' })
  assert.equal((await rename()).body.code, 'role_insufficient')
  assert.equal((await eve.delete(api(name))).body.code, 'role_insufficient')
  assert.equal((await eve.patch(api(name), { name })).status, 200)
  await ada.put(member, { role: 'maintain' })
  assert.equal((await rename()).status, 200)
  assert.equal((await eve.delete(api('held/mine'))).status, 204)
  await ada.delete(member)
})

test('the owner of a repository of a namespace has no right there without a role', async () => {
  const name = await namespace('left')
  const member = '/namespaces/left/members/eve'
  await ada.put(member, { role: 'maintain' })
  await eve.post('/repos', { name: 'left/own' })
  assert.equal((await eve.get(api('left/own'))).body.role, 'admin')
  await ada.put(member, { role: 'read' })
  assert.equal((await eve.get(api('left/own'))).body.role, 'admin')
  await ada.delete(member)
  for (const repository of ['left/own', name])
    assert.equal((await eve.get(api(repository))).status, 404)
  const listed = (await eve.get('/repos?limit=1000')).body
  assert.ok(!listed.some((one: { name: string }) => one.name === 'left/own'))
  assert.equal((await eve.patch(api('left/own'), { name: 'taken-away' })).status, 404)
  assert.equal((await eve.get('/events?limit=1000')).text.includes('left/own'), false)
})

test('a token for some repositories learns of no other namespace', async () => {
  const name = await namespace('seen')
  await namespace('unseen')
  const { body } = await ada.post('/tokens/delegate', { name: 'x', repositories: [name] })
  const limited = createClient(service.url, body.token)
  const [seen, unseen, missing] = await Promise.all(
    ['seen', 'unseen', 'missing'].map((one) => limited.get(`/repos?namespace=${one}`)),
  )
  assert.equal(seen?.body.length, 1)
  assert.equal(unseen?.status, 404)
  assert.equal(unseen?.text.replaceAll('unseen', 'missing'), missing?.text)
})

test('who is not a member sees nothing, as for a name that was never used', async () => {
  await namespace('hidden')
  for (const path of ['/namespaces/hidden', '/namespaces/hidden/members', api('hidden/site')]) {
    const there = await eve.get(path)
    const absent = await eve.get(path.replace('hidden', 'unused'))
    assert.deepEqual([there.status, absent.status], [404, 404])
    assert.equal(there.text.replaceAll('hidden', 'unused'), absent.text)
  }
  for (const made of [
    eve.post('/repos', { name: 'hidden/mine' }),
    eve.post('/repos', { name: 'hidden/site' }),
    eve.post('/repos', { name: 'unused/x' }),
  ])
    assert.equal((await made).body.code, 'namespace_not_found')
  assert.equal((await eve.post('/namespaces', { name: 'mine' })).body.code, 'permission_missing')
  assert.deepEqual((await eve.get('/namespaces')).body, [])
  const pages = await logIn(service.url, eve.token)
  const texts = await Promise.all(
    ['hidden', 'unused'].map(async (name) => (await pages.get(`/r/${name}`)).status),
  )
  assert.deepEqual(texts, [404, 404])
  // As far as its name, for those who see one of its repositories.
  await ada.post(`${api('hidden/site')}/collaborators`, { username: 'eve', role: 'read' })
  assert.deepEqual(
    [(await eve.get('/namespaces/hidden')).body.role, (await eve.get('/namespaces')).body.length],
    [null, 1],
  )
  assert.equal((await eve.get('/namespaces/hidden/members')).body.code, 'role_insufficient')
  const shared = (await eve.get(`${api('hidden/site')}/collaborators`)).body
  assert.deepEqual([shared.collaborators, shared.inherited], [['eve'], undefined])
  assert.equal((await eve.post('/repos', { name: 'hidden/mine' })).body.code, 'role_insufficient')
})

test('a member has its role in every repository, the highest that it has there, until it is removed', async () => {
  const name = await namespace('team')
  const member = '/namespaces/team/members/eve'
  assert.equal((await eve.get(api(name))).status, 404)
  assert.equal((await ada.put(member, { role: 'read' })).body.unknown, false)
  assert.equal((await eve.get(api(name))).body.role, 'read')
  assert.deepEqual((await eve.get(`${api(name)}/collaborators`)).body.inherited, [
    { namespace: 'team', member: 'ada', role: 'admin' },
    { namespace: 'team', member: 'eve', role: 'read' },
  ])
  assert.ok((await eve.get('/repos')).body.some((one: { name: string }) => one.name === name))
  await assert.rejects(project.git('push', eve.remote(name), 'HEAD:x'), /role/)
  await ada.post(`${api(name)}/collaborators`, { username: 'eve', role: 'write' })
  assert.equal((await eve.get(api(name))).body.role, 'write')
  assert.equal(
    (await eve.put('/namespaces/team/members/eve', { role: 'admin' })).body.code,
    'role_insufficient',
  )
  assert.equal((await eve.post('/repos', { name: 'team/eves' })).body.code, 'role_insufficient')
  await ada.put(member, { role: 'maintain' })
  assert.equal((await eve.post('/repos', { name: 'team/eves' })).status, 201)
  assert.equal((await eve.get(api(name))).body.role, 'maintain')
  await ada.put(member, { role: 'admin' })
  assert.equal((await eve.delete(api(name))).status, 204)
  assert.ok(
    (await eve.get('/deleted-repos')).body.some((one: { name: string }) => one.name === name),
  )
  assert.deepEqual(
    (await ada.get('/namespaces/team/members')).body.map((one: { member: string }) => one.member),
    ['ada', 'eve'],
  )
  const stream = await fetch(`${service.url}/events?follow=true&repository=team%2Feves`, {
    headers: { authorization: `Bearer ${ada.token}` },
  })
  assert.equal(stream.status, 200)
  assert.equal((await ada.delete('/namespaces/team/members/ada')).status, 204)
  // It ends by itself.
  await stream.text()
  assert.equal((await ada.get('/namespaces/team')).status, 404)
  assert.equal((await ada.put('/namespaces/team/members/a b', { role: 'read' })).status, 404)
  assert.equal(
    (await eve.put(`/namespaces/team/members/${encodeURIComponent('a b')}`, { role: 'read' }))
      .status,
    400,
  )
})

test('a namespace is renamed with its repositories, whose old addresses lead to them, and deleted when empty', async () => {
  const name = await namespace('before')
  await ada.post('/repos', { name: 'before/gone' })
  const { id } = (await ada.get(api('before/gone'))).body
  await ada.delete(api('before/gone'))
  assert.equal((await ada.patch('/namespaces/before', { name: 'after' })).body.name, 'after')
  assert.equal((await ada.get(api('after/site'))).status, 200)
  assert.equal((await ada.get(api(name))).body.renamedTo, 'after/site')
  assert.match(await project.git('ls-remote', ada.remote(name)), /refs\/heads\/main/)
  const pages = await logIn(service.url, ada.token)
  assert.equal((await pages.get('/r/before/site/src/main')).location, '/r/after/site/src/main')
  assert.equal((await ada.post(`/deleted-repos/${id}/restore`, {})).body.name, 'after/gone')
  const full = await ada.delete('/namespaces/after')
  assert.deepEqual([full.status, full.body.code], [409, 'namespace_not_empty'])
  // Nor is its name free, nor the old name of a repository for others than its owner and admins.
  const remade = await ada.post('/namespaces', { name: 'Before' })
  assert.deepEqual([remade.status, remade.body.code], [409, 'namespace_name_taken'])
  assert.match(remade.body.detail, /their old names lead to them/)
  assert.equal((await ada.post('/namespaces', { name: 'befor' })).status, 201)
  assert.equal(
    (await ada.patch('/namespaces/befor', { name: 'before' })).body.code,
    'namespace_name_taken',
  )
  assert.equal((await ada.patch('/namespaces/after', { name: 'before' })).status, 200)
  assert.equal((await ada.patch('/namespaces/before', { name: 'after' })).status, 200)
  await admin.post('/namespaces', { name: 'before' })
  const eveIs = (role: string) => admin.put('/namespaces/before/members/eve', { role })
  await eveIs('maintain')
  assert.equal(
    (await eve.post('/repos', { name: 'before/site' })).body.code,
    'repository_name_taken',
  )
  await eveIs('admin')
  assert.equal((await eve.post('/repos', { name: 'before/site' })).status, 201)
  assert.equal((await ada.patch(api('after/site'), { name: 'lone-site' })).body.name, 'lone-site')
  assert.equal((await ada.get(api('after/site'))).body.renamedTo, 'lone-site')
  await ada.delete(api('after/gone'))
  assert.match((await ada.delete('/namespaces/after')).body.detail, /after\/gone \(deleted\)/)
  await ada.delete(`/deleted-repos/${id}`)
  assert.equal((await ada.delete('/namespaces/after')).status, 204)
  const { body } = await admin.get('/audit?action=namespace.deleted')
  assert.ok(JSON.stringify(body).includes('after'))
})
