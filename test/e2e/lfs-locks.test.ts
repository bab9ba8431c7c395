// Tags: each-store

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { chmod, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createProject, git, type Project } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { type Client, type Service, startServiceWithSsh } from '../support/service.ts'
import { createSshUser, type SshUser } from '../support/ssh-user.ts'

const skip = without('git-lfs')

let service: Service
let ada: Client
let grace: Client
let user: SshUser
let project: Project

before(async () => {
  service = await startServiceWithSsh()
  ada = await service.client({ username: 'ada', permissions: ['repo:read', 'repo:write'] })
  grace = await service.client({ username: 'grace', permissions: ['repo:read', 'repo:write'] })
  user = await createSshUser(service, grace)
  await ada.post('/repos', { name: 'site' })
  await service.admin.post('/repos/site/collaborators', { username: 'grace' })
  project = await createProject()
  await project.git('lfs', 'install', '--local')
  await project.git('lfs', 'track', '--lockable', '*.bin')
  for (const name of ['a.bin', 'b.bin']) await writeFile(join(project.path, name), `${name} 1`)
  await project.git('add', '.')
  await project.git('commit', '--quiet', '-m', 'Large files')
  for (const [name, url] of [
    ['ada', ada.remote('site')],
    ['grace', grace.remote('site')],
    ['ssh', user.remote('site')],
  ] as const)
    await project.git('remote', 'add', name, url)
  await lfs('push', '--quiet', 'ada', 'HEAD:main')
})

after(async () => {
  await project[Symbol.asyncDispose]()
  await user[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
})

const locks = '/repos/site.git/info/lfs/locks'

async function lfs(...args: string[]): Promise<string> {
  return (await git(project.path, args, { GIT_SSH_COMMAND: user.command })).stdout
}

test('git-lfs locks, lists and unlocks over HTTP and SSH', { skip }, async () => {
  await lfs('lfs', 'lock', '--remote=ada', 'a.bin')
  await assert.rejects(lfs('lfs', 'lock', '--remote=ssh', 'a.bin'), /locked by ada/)
  await lfs('lfs', 'lock', '--remote=ssh', 'b.bin')
  assert.match(await lfs('lfs', 'locks', '--remote=ssh'), /a\.bin\s+ada\s.*\nb\.bin\s+grace\s/)
  const verified = await ada.post(`${locks}/verify`, {})
  assert.deepEqual(
    [verified.body.ours, verified.body.theirs].map((all) => all.map(({ path }: Named) => path)),
    [['a.bin'], ['b.bin']],
  )
  await assert.rejects(lfs('lfs', 'unlock', '--force', '--remote=ssh', 'a.bin'), /locked by ada/)
  await lfs('lfs', 'unlock', '--force', '--remote=ada', 'b.bin')
  await lfs('lfs', 'unlock', '--remote=ada', 'a.bin')
  // A maintainer may, whichever way.
  await service.admin.post('/repos/site/collaborators', { username: 'grace', role: 'maintain' })
  await lfs('lfs', 'lock', '--remote=ada', 'a.bin')
  await lfs('lfs', 'unlock', '--force', '--remote=ssh', 'a.bin')
  await service.admin.post('/repos/site/collaborators', { username: 'grace', role: 'write' })
  assert.deepEqual((await ada.get(locks)).body, { locks: [] })
})

type Named = { path: string }

test('locks are listed in pages, and for those who may', async () => {
  for (const path of ['one', 'two/three', 'é']) {
    const { status, body } = await grace.post(locks, { path, ref: { name: 'refs/heads/main' } })
    assert.deepEqual([status, body.lock.path, body.lock.owner.name], [201, path, 'grace'])
    assert.match(body.lock.locked_at, /^\d{4}-\d\d-\d\dT[\d:]{8}Z$/)
  }
  const first = (await ada.get(`${locks}?limit=2&refspec=refs/heads/main`)).body
  const second = (await ada.get(`${locks}?limit=2&cursor=${first.next_cursor}`)).body
  assert.deepEqual(
    [...first.locks, ...second.locks].map(({ path }) => path),
    ['one', 'two/three', 'é'],
  )
  assert.equal(second.next_cursor, undefined)
  const [, two] = first.locks
  assert.deepEqual((await ada.get(`${locks}?path=two/three`)).body.locks, [two])
  assert.deepEqual((await ada.get(`${locks}?id=${two.id}&path=`)).body.locks, [two])
  assert.deepEqual((await ada.get(`${locks}?id=x&path=%00`)).body.locks, [])
  const page = await grace.post(`${locks}/verify`, { limit: 1, cursor: first.locks[0].id })
  assert.deepEqual([page.body.ours, page.body.next_cursor], [[two], two.id])

  const reader = await service.client({ username: 'grace', permissions: ['repo:read'] })
  const stranger = await service.client({ username: 'mallory' })
  assert.equal((await reader.get(locks)).status, 200)
  assert.equal((await reader.post(locks, { path: 'x' })).status, 403)
  assert.equal((await reader.post(`${locks}/verify`, {})).status, 403)
  assert.equal((await reader.post(`${locks}/${two.id}/unlock`, {})).status, 403)
  assert.equal((await stranger.get(locks)).status, 404)
  for (const path of [undefined, 1, '', '/x', 'x/', 'x//y', './x', 'x/../y', 'x\0', '\ud800'])
    assert.equal((await ada.post(locks, { path })).status, 422, JSON.stringify(path))
  assert.equal((await ada.post(locks, { path: 'x'.repeat(1025) })).status, 422)
  for (const query of ['limit=0', 'limit=x', 'cursor=x'])
    assert.equal((await ada.get(`${locks}?${query}`)).status, 422, query)

  assert.equal((await ada.post(`${locks}/${two.id}/unlock`, {})).status, 403)
  for (const lock of [...first.locks, ...second.locks])
    assert.equal((await ada.post(`${locks}/${lock.id}/unlock`, { force: true })).status, 200)
  assert.equal((await grace.post(`${locks}/${two.id}/unlock`, {})).status, 404)
  const answers = await Promise.all(
    Array.from({ length: 5 }, () => ada.post(locks, { path: 'raced' })),
  )
  assert.deepEqual(answers.map(({ status }) => status).sort(), [201, 409, 409, 409, 409])
  const { body } = await ada.get(locks)
  await ada.post(`${locks}/${body.locks[0].id}/unlock`, {})
})

test('a forced unlock counts by the role of when its body is there', async () => {
  const member = { username: 'grace', role: 'maintain' }
  await service.admin.post('/repos/site/collaborators', member)
  const { lock } = (await ada.post(locks, { path: 'late' })).body
  const body = JSON.stringify({ force: true })
  const sent = request(`${service.url}${locks}/${lock.id}/unlock`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${grace.token}`,
      'content-type': 'application/vnd.git-lfs+json',
      'content-length': body.length,
      expect: '100-continue',
    },
  })
  const response = once(sent, 'response')
  sent.flushHeaders()
  await once(sent, 'continue')
  await service.admin.post('/repos/site/collaborators', { ...member, role: 'write' })
  sent.end(body)
  const [message] = await response
  message.resume()
  assert.equal(message.statusCode, 403)
  assert.equal((await ada.post(`${locks}/${lock.id}/unlock`, {})).status, 200)
})

test('a push of another user may not change a locked file', { skip }, async () => {
  const commit = async (message: string, files: Record<string, string>) => {
    for (const [name, text] of Object.entries(files)) {
      await chmod(join(project.path, name), 0o644).catch(() => {})
      await writeFile(join(project.path, name), text)
    }
    await project.git('add', '.')
    await project.git('commit', '--quiet', '-m', message)
  }
  const push = (...args: string[]) => lfs('push', '--quiet', '--no-verify', ...args)
  const refused = (...args: string[]) =>
    assert.rejects(push(...args), /Only the owner of a lock .*: "a\.bin" is locked by ada\./)
  const switchTo = (...args: string[]) => project.git('switch', '--quiet', ...args)

  await switchTo('-c', 'early')
  await commit('Change before the lock', { 'a.bin': 'a early' })
  await lfs('push', '--quiet', 'grace', 'early')
  await lfs('lfs', 'lock', '--remote=ada', 'a.bin')
  // Git LFS itself stops the push, if it is used.
  await switchTo('-c', 'grace', 'main')
  await commit('Change', { 'a.bin': 'a of grace', 'c.txt': 'c' })
  const verify = ['-c', `lfs.${grace.remote('site')}/info/lfs.locksverify=true`]
  await assert.rejects(lfs(...verify, 'push', 'grace', 'grace'), /Cannot update locked files/)
  await refused('grace', 'grace:main')
  await refused('ssh', 'grace:new')
  await refused('grace', `grace:refs/tags/v1`)
  await project.git('reset', '--quiet', '--hard', 'main')
  await project.git('mv', 'a.bin', 'renamed.bin')
  await project.git('commit', '--quiet', '-m', 'Rename')
  await refused('grace', 'grace:new')
  await refused('grace', 'early:main')
  const changes = [{ path: 'a.bin', delete: true }]
  const byApi = await grace.post('/repos/site/commits', { branch: 'main', message: 'x', changes })
  assert.deepEqual([byApi.status, byApi.body.code], [403, 'path_locked'])

  // The owner may, and others can build on it.
  await project.git('reset', '--quiet', '--hard', 'main')
  await commit('Unlocked files', { 'b.bin': 'b 2', 'c.txt': 'c' })
  await lfs('push', '--quiet', 'grace', 'grace:new')
  await switchTo('main')
  await commit('Change by the owner', { 'a.bin': 'a 2' })
  await lfs('push', '--quiet', 'ada', 'main')
  await switchTo('grace')
  await project.git('merge', '--quiet', '-m', 'Merge', 'main')
  await lfs('push', '--quiet', 'grace', 'grace:new')
  await refused('--force', 'grace', 'main~:main')
  const { body: pushes } = await ada.get('/repos/site/pushes?limit=100')
  const last = pushes.find(({ refs }: Pushed) => refs[0]?.ref === 'refs/heads/main')
  assert.equal((await grace.post(`/repos/site/pushes/${last.id}/undo`)).status, 403)
  await push('grace', ':early')
  await lfs('lfs', 'unlock', '--force', '--remote=ada', 'a.bin')
  await push('--force', 'grace', 'main~:main')
})

type Pushed = { id: string; refs: { ref: string }[] }

test('a push may not put a branch with another locked file in place of the default one', {
  skip,
}, async () => {
  await ada.post('/repos', { name: 'swapped' })
  await service.admin.post('/repos/swapped/collaborators', { username: 'grace' })
  await using other = await createProject()
  const old = await other.commit('f.txt', 'old')
  const own = ada.remote('swapped')
  const theirs = grace.remote('swapped')
  await other.git('push', '--quiet', theirs, `${old}:refs/heads/main`)
  await other.commit('f.txt', 'new')
  await other.git('push', '--quiet', own, 'HEAD:main')
  await ada.post('/repos/swapped.git/info/lfs/locks', { path: 'f.txt' })
  for (const refs of [
    [`+${old}:refs/heads/main`],
    [':main', `${old}:refs/heads/master`],
    [':main', `${old}:refs/heads/other`],
    [':main', `${old}:refs/heads/trunk`],
  ])
    await assert.rejects(
      other.git('push', theirs, ...refs),
      /"f\.txt" is locked by ada/,
      refs.join(' '),
    )
  await other.git('push', '--quiet', theirs, ':main', 'HEAD:refs/heads/master')
  await assert.rejects(
    other.git('push', theirs, ':master', `${old}:refs/heads/main`),
    /"f\.txt" is locked by ada/,
  )
  const limited = {
    name: 'x',
    username: 'ada',
    permissions: ['repo:write'],
    refs: ['refs/heads/x'],
  }
  const { body } = await service.admin.post('/tokens', limited)
  const headers = { authorization: `Bearer ${body.token}` }
  const path = `${service.url}/repos/swapped.git/info/lfs/locks`
  const sent = await fetch(path, { method: 'POST', headers, body: '{"path":"g.txt"}' })
  assert.equal(sent.status, 403)
  const odd = await fetch(path, {
    method: 'POST',
    headers: { authorization: `Bearer ${ada.token}` },
    body: Buffer.from('{"path":"\xff"}', 'latin1'),
  })
  assert.equal(odd.status, 422)
})
