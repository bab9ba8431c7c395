// Tags: each-store
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createProject, type Project } from '../support/git.ts'
import { logIn } from '../support/page-client.ts'
import { without } from '../support/programs.ts'
import { type Client, type Service, startServiceWithSsh } from '../support/service.ts'
import { createSshUser } from '../support/ssh-user.ts'

let service: Service
let project: Project
let owner: Client
let collaborator: Client
let stranger: Client

const permissions = ['repo:read', 'repo:write', 'repo:delete', 'collaborator:write']

before(async () => {
  service = await startServiceWithSsh()
  project = await createProject()
  owner = await service.client({ username: 'ada', permissions })
  collaborator = await service.client({ username: 'cora', permissions })
  stranger = await service.client({ username: 'eve', permissions })
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

/** A repository that its collaborator has renamed. */
async function renamed(name: string): Promise<string> {
  await owner.post('/repos', { name })
  await project.git('push', '--quiet', owner.remote(name), 'HEAD:main')
  await owner.post(`/repos/${name}/collaborators`, { username: 'cora' })
  const { status, text } = await collaborator.patch(`/repos/${name}`, { name: `${name}-2` })
  assert.equal(status, 200, text)
  return `${name}-2`
}

async function refusesName(client: Client, name: string): Promise<void> {
  const spare = `spare-${client.username}-${name}`.toLowerCase()
  await client.post('/repos', { name: spare })
  const calls = {
    create: client.post('/repos', { name }),
    rename: client.patch(`/repos/${spare}`, { name }),
    import: client.post('/repos/import', { name, source: 'http://127.0.0.1:9/x.git' }),
  }
  for (const [how, call] of Object.entries(calls)) {
    const { status, body } = await call
    assert.deepEqual([status, body.code], [409, 'repository_name_taken'], how)
    assert.match(body.detail, /until \d{4}-.* only its owner and admins/, how)
  }
  const { id } = (await client.get(`/repos/${spare}`)).body
  await client.delete(`/repos/${spare}`)
  const restored = await client.post(`/deleted-repos/${id}/restore`, { name })
  assert.deepEqual([restored.status, restored.body.code], [409, 'repository_name_taken'])
}

test('a name that a rename has freed is taken by the owner and admins alone', async () => {
  await renamed('pay')
  for (const client of [collaborator, stranger])
    for (const name of ['pay', 'PAY']) await refusesName(client, name)
  assert.equal((await owner.post('/repos', { name: 'pay' })).status, 201)
  await renamed('bill')
  assert.equal((await service.admin.post('/repos', { name: 'bill' })).status, 201)
  // Once it is taken, it leads nowhere else, even after this repository is gone.
  await service.admin.delete('/repos/bill')
  assert.equal((await owner.get('/repos/bill')).body.renamedTo, undefined)
  assert.equal((await stranger.post('/repos', { name: 'bill' })).status, 201)
})

test('the repository itself gets its former name back, and keeps all others', async () => {
  await renamed('chain')
  await collaborator.patch('/repos/chain-2', { name: 'chain-3' })
  for (const name of ['chain', 'chain-2']) {
    assert.equal((await owner.get(`/repos/${name}`)).body.renamedTo, 'chain-3')
    await refusesName(stranger, name)
  }
  assert.equal((await collaborator.patch('/repos/chain-3', { name: 'chain' })).status, 200)
  assert.equal((await owner.get('/repos/chain')).status, 200)
  for (const name of ['chain-2', 'chain-3'])
    assert.equal((await owner.get(`/repos/${name}`)).body.renamedTo, 'chain')
})

test('a deletion frees the name and the former names', async () => {
  const name = await renamed('brief')
  await owner.delete(`/repos/${name}`)
  for (const free of ['brief', name]) {
    assert.equal((await owner.get(`/repos/${free}`)).body.renamedTo, undefined)
    assert.equal((await stranger.post('/repos', { name: free })).status, 201)
  }
})

test('the API says the new name to those who may see it, and nothing to others', async () => {
  const name = await renamed('moved')
  for (const path of ['', '/branches', '/collaborators', '/protections/branches']) {
    const { status, body } = await owner.get(`/repos/moved${path}`)
    if (path === '/collaborators') continue
    assert.deepEqual([status, body.code, body.renamedTo], [404, 'repository_not_found', name], path)
    assert.match(body.detail, /"moved" was renamed to "moved-2"/)
  }
  assert.equal((await owner.get('/repos/moved.git')).body.renamedTo, name)
  assert.equal((await owner.get('/events?repository=moved')).body.renamedTo, name)
  const texts = await Promise.all(
    ['moved', 'never-used', 'MOVED'].map(async (one) =>
      (await stranger.get(`/repos/${one}`)).text.replaceAll(one, '*'),
    ),
  )
  assert.equal(new Set(texts).size, 1)
  await owner.delete(`/repos/${name}/collaborators/cora`)
  assert.equal((await collaborator.get('/repos/moved')).body.renamedTo, undefined)
})

test('Git goes on with the old address, with the same rights', async () => {
  const name = await renamed('cloned')
  const at = (client: Client) => client.remote('cloned')
  assert.match(await project.git('ls-remote', at(collaborator)), /refs\/heads\/main/)
  await project.git('push', '--quiet', at(collaborator), 'HEAD:refs/heads/later')
  assert.match(await project.git('ls-remote', owner.remote(name)), /refs\/heads\/later/)
  await assert.rejects(project.git('ls-remote', at(stranger)), /not found/)
  await assert.rejects(project.git('push', at(stranger), 'HEAD:x'), /not found/)
  await owner.put(`/repos/${name}/protections/branches/main`)
  await assert.rejects(project.git('push', at(collaborator), ':refs/heads/main'), /protected/)
})

test('Git over SSH does, too', { skip: without('openssh') }, async () => {
  await renamed('shelled')
  await using user = await createSshUser(service, owner)
  await using other = await createSshUser(service, stranger)
  const refs = await user.git(project.path, 'ls-remote', user.remote('shelled'))
  assert.match(refs.stdout, /refs\/heads\/main/)
  await user.git(project.path, 'push', '--quiet', user.remote('shelled'), 'HEAD:refs/heads/later')
  const refused = await other.tryGit(project.path, 'ls-remote', other.remote('shelled'))
  assert.notEqual(refused.exitCode, 0)
  assert.match(refused.stderr, /no repository|not found/i)
})

test('pages lead to the same page of the repository', async () => {
  await renamed('shown')
  const client = await logIn(service.url, owner.token)
  for (const path of ['', '/branches', '/src/main', '/log/main?path=x', '/settings']) {
    const { status, location } = await client.get(`/r/shown${path}`)
    assert.deepEqual([status, location], [303, `/r/shown-2${path}`], path)
  }
  const hidden = await logIn(service.url, stranger.token)
  assert.equal((await hidden.get('/r/shown')).status, 404)
  // Git goes on from the address of a page, too.
  const address = owner.remote('shown').replace('/repos/shown.git', '/r/shown')
  assert.match(await project.git('ls-remote', address), /refs\/heads\/main/)
})

test('concurrent renames to and creations of one name leave it to one repository', async () => {
  const first = await renamed('raced')
  const answers = await Promise.all([
    ...Array.from({ length: 4 }, () => collaborator.patch(`/repos/${first}`, { name: 'raced' })),
    ...Array.from({ length: 4 }, () => stranger.post('/repos', { name: 'raced' })),
  ])
  const made = answers.slice(4).filter(({ status }) => status === 201)
  assert.equal(made.length, 0)
  assert.equal((await owner.get('/repos/raced')).status, 200)
})
