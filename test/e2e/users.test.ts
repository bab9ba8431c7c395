import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request } from 'node:http'
import { after, before, test } from 'node:test'
import { createProject, git } from '../support/git.ts'
import { logIn } from '../support/page-client.ts'
import { type Client, createClient, type Service, startServiceWithSsh } from '../support/service.ts'
import { createSshUser, type SshUser } from '../support/ssh-user.ts'

let service: Service
let admin: Client
let ada: Client
let user: SshUser

before(async () => {
  service = await startServiceWithSsh()
  admin = service.admin
  ada = await service.client({ username: 'ada', permissions: ['everything'] })
  user = await createSshUser(service, ada)
  await ada.post('/repos', { name: 'site' })
})

after(async () => {
  await user[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
})

const overSsh = () =>
  git('/', ['ls-remote', user.remote('site')], { GIT_SSH_COMMAND: user.command })

test('a preset is spelled out, and callers see what they may do', async () => {
  const { body } = await admin.post('/tokens', { name: 'x', permissions: ['ci', 'repo:read'] })
  const ci = ['repo:read', 'workflow:read', 'workflow:trigger', 'status:write']
  assert.deepEqual(body.permissions, ci)
  assert.equal((await admin.post('/tokens', { name: 'x', permissions: ['all'] })).status, 400)
  const me = (await ada.get('/user')).body
  assert.deepEqual([me.user.username, me.credential.kind], ['ada', 'token'])
  assert.ok(!me.credential.permissions.includes('admin'))
  const limits = {
    username: 'ada',
    permissions: ['read'],
    repositories: ['site'],
  }
  const created = await admin.post('/tokens', { name: 'x', ...limits })
  const limited = createClient(service.url, created.body.token)
  const { credential } = (await limited.get('/user')).body
  assert.deepEqual(credential.repositories, ['site'])
  assert.equal((await limited.get('/users/ada')).body.username, 'ada')
  assert.equal((await limited.get('/users/admin')).status, 403)
  assert.equal((await ada.get('/users')).status, 403)
})

test('a user is known by its first token or key, and keeps what it is called', async () => {
  await admin.post('/tokens', { name: 'x', username: 'grace' })
  const listed = (await admin.get('/users')).body
  const names = listed.map(({ username }: { username: string }) => username)
  for (const name of ['admin', 'ada', 'grace']) assert.ok(names.includes(name), name)
  const page = await admin.get('/users?limit=1')
  assert.match(page.headers.get('link') ?? '', /cursor=/)
  const change = { displayName: 'Grace Hopper', email: 'grace@example.com' }
  const { status, body } = await admin.patch('/users/grace', change)
  assert.deepEqual([status, body.displayName, body.disabled], [200, 'Grace Hopper', false])
  assert.equal((await admin.patch('/users/grace', { email: 'none at all' })).status, 400)
  assert.equal((await admin.patch('/users/nobody', change)).status, 404)
  await admin.post('/tokens', { name: 'y', username: 'grace' })
  assert.equal((await admin.get('/users/grace')).body.email, 'grace@example.com')
})

test('nothing of a disabled user is valid, until it is enabled again', async () => {
  const delegated = (await ada.post('/tokens/delegate', { name: 'part' })).body.token
  const pages = await logIn(service.url, ada.token)
  assert.equal((await pages.get('/r/site')).status, 200)
  await overSsh()
  const stream = await fetch(`${service.url}/events?follow=true`, {
    headers: { authorization: `Bearer ${ada.token}` },
  })
  assert.equal(stream.status, 200)

  assert.equal((await admin.patch('/users/ada', { disabled: true })).body.disabled, true)
  for (const token of [ada.token, delegated]) {
    const headers = { authorization: `Bearer ${token}` }
    assert.equal((await fetch(`${service.url}/repos`, { headers })).status, 401)
  }
  await assert.rejects(overSsh(), /Permission denied/)
  const page = await pages.get('/r/site')
  assert.deepEqual([page.status, page.location?.split('?')[0]], [303, '/-/login'])
  // It ends by itself.
  await stream.text()
  await using project = await createProject()
  await project.commit('a.txt')
  await assert.rejects(
    project.git('push', ada.remote('site'), 'HEAD:main'),
    /Authentication failed/,
  )

  assert.equal((await admin.patch('/users/ada', { disabled: false })).body.disabled, false)
  assert.equal((await ada.get('/repos/site')).status, 200)
  assert.equal((await pages.get('/r/site')).status, 200)
  await overSsh()
  const self = await admin.patch('/users/admin', { disabled: true })
  assert.deepEqual([self.status, self.body.code], [409, 'user_in_use'])
})

test('a request whose body comes late is admitted again', async () => {
  const eve = await service.client({ username: 'eve', permissions: ['everything', 'admin'] })
  const pages = await logIn(service.url, eve.token)
  const bearer = { authorization: `Bearer ${eve.token}` }
  const late = [
    { path: '/repos', body: '{"name":"late"}', type: 'application/json', headers: bearer },
    {
      path: '/repos/site.git/info/lfs/objects/batch',
      body: '{"operation":"download","objects":[]}',
      ...{ type: 'application/vnd.git-lfs+json', headers: bearer },
    },
    {
      path: '/-/new',
      body: 'name=late',
      type: 'application/x-www-form-urlencoded',
      headers: { cookie: pages.cookie(), 'sec-fetch-site': 'same-origin' },
    },
  ].map(({ path, body, type, headers }) => {
    const length = { 'content-type': type, 'content-length': body.length }
    // Its admission is over when it may send the body; a form has no such sign.
    const expect = type.startsWith('application/x') ? {} : { expect: '100-continue' }
    const sent = request(service.url + path, {
      ...{ method: 'POST', headers: { ...headers, ...length, ...expect } },
    })
    const response = once(sent, 'response')
    sent.flushHeaders()
    return { sent, body, response, isAdmitted: expect.expect ? once(sent, 'continue') : undefined }
  })
  for (const { isAdmitted } of late) await isAdmitted
  assert.equal((await pages.get('/-/keys')).status, 200)
  assert.equal((await admin.patch('/users/eve', { disabled: true })).status, 200)
  const statuses: unknown[] = []
  for (const { sent, body, response } of late) {
    sent.end(body)
    const [message] = await response
    message.resume()
    statuses.push(message.statusCode, message.headers.location ?? '')
  }
  assert.deepEqual(statuses, [401, '', 401, '', 303, '/-/login?next=%2F-%2Fnew'])
  assert.equal((await admin.get('/repos/late')).status, 404)
})

test('a deleted user leaves no token, key or collaboration behind', async () => {
  const bob = await service.client({ username: 'bob' })
  const key = await createSshUser(service, bob)
  await using _key = key
  await ada.post('/repos/site/collaborators', { username: 'bob' })
  assert.equal((await bob.get('/repos/site')).status, 200)
  const owned = await admin.delete('/users/ada')
  assert.deepEqual([owned.status, owned.body.code], [409, 'user_owns_repositories'])
  assert.match(owned.body.detail, /site/)
  assert.equal((await ada.get('/repos/site/collaborators')).body.collaborators.length, 1)

  assert.equal((await admin.delete('/users/bob')).status, 204)
  assert.equal((await bob.get('/repos/site')).status, 401)
  assert.equal((await admin.get('/keys?username=bob')).body.length, 0)
  assert.deepEqual((await ada.get('/repos/site/collaborators')).body.collaborators, [])
  assert.equal((await admin.get('/users/bob')).status, 404)
  assert.equal((await admin.delete('/users/bob')).status, 404)
  const { body } = await admin.get('/audit?action=user.deleted')
  assert.equal(JSON.stringify(body).includes('bob'), true)
})
