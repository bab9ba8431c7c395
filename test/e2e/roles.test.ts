import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { permissions } from '#access/permissions.ts'
import { createProject, type Project } from '../support/git.ts'
import { type Client, type Service, startService } from '../support/service.ts'

let service: Service
let project: Project
let owner: Client

/** Every permission but admin: what a collaborator may do is then decided by the role alone. */
const everything = permissions.filter((one) => one !== 'admin')
const roles = ['read', 'write', 'maintain', 'admin'] as const

before(async () => {
  service = await startService()
  project = await createProject()
  owner = await service.client({ username: 'ada', permissions: everything })
  await owner.post('/repos', { name: 'site' })
  await project.git('push', owner.remote('site'), 'HEAD:main')
  await owner.put('/repos/site/protections/branches/main')
  for (const role of roles)
    await owner.post('/repos/site/collaborators', { username: `user-${role}`, role })
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

const as = (role: string, wanted = everything) =>
  service.client({ username: `user-${role}`, permissions: wanted })

/** What each call is answered, by the least role that may make it. */
const calls = [
  ['read', 'GET', '/repos/site', undefined],
  ['read', 'GET', '/repos/site/collaborators', undefined],
  ['read', 'GET', '/repos/site/secrets', undefined],
  ['read', 'GET', '/repos/site/workflows', undefined],
  ['read', 'GET', '/repos/site/pushes', undefined],
  ['read', 'GET', '/repos/site/protections/branches', undefined],
  ['write', 'PATCH', '/repos/site', { description: 'x' }],
  ['write', 'DELETE', '/repos/site/secrets/NONE', undefined],
  ['write', 'POST', '/repos/site/workflows/none/cancel', undefined],
  ['write', 'POST', '/repos/site/collaborators', { username: 'friend', role: 'read' }],
  ['maintain', 'GET', '/repos/site/webhooks', undefined],
  ['maintain', 'PUT', '/repos/site/protections/branches/dev', undefined],
  ['maintain', 'POST', '/repos/site/webhooks', { url: 'http://127.0.0.1:9/', events: ['push'] }],
  ['admin', 'PATCH', '/repos/site', { defaultBranch: 'main' }],
] as const

test('each role may do what it says, and no more', async () => {
  for (const role of roles) {
    const client = await as(role)
    for (const [least, method, path, body] of calls) {
      const { status, text } = await client.call(method, path, body)
      const isAllowed = roles.indexOf(role) >= roles.indexOf(least)
      assert.equal(status === 403, !isAllowed, `${role} ${method} ${path}: ${status} ${text}`)
      assert.ok(status < 500)
    }
  }
})

test('each role pushes what it says, over Git', async () => {
  for (const role of roles) {
    const remote = (await as(role)).remote('site')
    await project.git('commit', '--quiet', '--allow-empty', '--message', role)
    const push = (ref: string) =>
      project.git('push', '--force', remote, `HEAD:${ref}`).then(
        () => 'pushed',
        ({ stderr }) => /role in this repository|protected/.exec(stderr)?.[0],
      )
    await project.git('ls-remote', remote)
    const [free, guarded] = [await push(`by-${role}`), await push('main')]
    assert.equal(free, role === 'read' ? 'role in this repository' : 'pushed')
    const refusal = role === 'read' ? 'role in this repository' : 'protected'
    assert.equal(guarded, role === 'admin' ? 'pushed' : refusal)
  }
})

test('a role gives nothing that the token does not have', async () => {
  const reader = await as('admin', ['repo:read'])
  assert.equal((await reader.patch('/repos/site', { description: 'y' })).status, 403)
  await assert.rejects(project.git('push', reader.remote('site'), 'HEAD:x'), /repo:write/)
})

test('no collaborator gives or takes a role above their own', async () => {
  const [writer, maintainer] = [await as('write'), await as('maintain')]
  for (const [who, username, role] of [
    [writer, 'friend', 'maintain'],
    [writer, writer.username, 'admin'],
    [maintainer, 'friend', 'admin'],
    [maintainer, 'user-admin', 'read'],
    [writer, 'user-maintain', 'read'],
  ] as const) {
    const answer = await who.post('/repos/site/collaborators', { username, role })
    assert.deepEqual([answer.status, answer.body.code], [403, 'role_insufficient'], answer.text)
  }
  for (const [who, username] of [
    [writer, 'user-maintain'],
    [maintainer, 'user-admin'],
  ] as const) {
    const answer = await who.delete(`/repos/site/collaborators/${username}`)
    assert.deepEqual([answer.status, answer.body.code], [403, 'role_insufficient'])
  }
  const { body } = await owner.get('/repos/site/collaborators')
  assert.equal(body.roles['user-admin'], 'admin')
})

test('the list has roles, and adding again without one changes nothing', async () => {
  await owner.post('/repos', { name: 'list' })
  const added = await owner.post('/repos/list/collaborators', { username: 'ghost' })
  assert.deepEqual(added.body, {
    repoName: 'list',
    collaborators: ['ghost'],
    roles: { ghost: 'write' },
    unknownUsernames: ['ghost'],
    unknown: true,
  })
  await service.client({ username: 'ghost' })
  const raised = await owner.post('/repos/list/collaborators', { username: 'ghost', role: 'admin' })
  assert.deepEqual(raised.body.roles, { ghost: 'admin' })
  assert.ok(!('unknown' in raised.body))
  const again = await owner.post('/repos/list/collaborators', { username: 'ghost' })
  assert.deepEqual(again.body.roles, { ghost: 'admin' })
  const { body: events } = await owner.get('/events?repository=list')
  assert.deepEqual(
    events.flatMap(({ kind, data }: { kind: string; data: object }) =>
      kind.startsWith('collaborator') ? [[kind, data]] : [],
    ),
    [
      ['collaborator.added', { username: 'ghost', role: 'write' }],
      ['collaborator.changed', { username: 'ghost', role: 'admin', formerRole: 'write' }],
    ],
  )
  const bad = await owner.post('/repos/list/collaborators', { username: 'ghost', role: 'king' })
  assert.deepEqual([bad.status, bad.body.errors[0].pointer], [400, '/role'])
})

test('a role that is lowered counts from the next request on, and a collaborator may leave', async () => {
  await owner.post('/repos', { name: 'shrinking' })
  await owner.post('/repos/shrinking/collaborators', { username: 'user-write', role: 'maintain' })
  const member = await as('write')
  assert.equal((await member.get('/repos/shrinking/webhooks')).status, 200)
  await owner.post('/repos/shrinking/collaborators', { username: 'user-write', role: 'write' })
  assert.equal((await member.get('/repos/shrinking/webhooks')).status, 403)
  const left = await member.delete('/repos/shrinking/collaborators/user-write')
  assert.equal(left.status, 204)
  assert.equal((await member.get('/repos/shrinking')).status, 404)
})
