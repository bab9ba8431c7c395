// Tags: each-store

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createProject, git, type Project } from '../support/git.ts'
import { type Client, type Service, startServiceWithSsh } from '../support/service.ts'
import { createSshUser, type SshUser } from '../support/ssh-user.ts'

let service: Service
let client: Client
let user: SshUser
let project: Project

before(async () => {
  service = await startServiceWithSsh()
  client = await service.client({ username: 'ada', permissions: ['repo:read', 'repo:write'] })
  user = await createSshUser(service, client)
  project = await createProject()
  await client.post('/repos', { name: 'site' })
  await project.git('remote', 'add', 'http', client.remote('site'))
  await project.git('remote', 'add', 'ssh', user.remote('site'))
})

after(async () => {
  await project[Symbol.asyncDispose]()
  await user[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
})

const idOf = (text: string) => createHash('sha256').update(text).digest('hex')
const pointerTo = (text: string, more = '') =>
  `version https://git-lfs.github.com/spec/v1\n${more}oid sha256:${idOf(text)}\nsize ${text.length}\n`

async function upload(text: string): Promise<void> {
  const objects = `${service.url}/repos/site.git/info/lfs/objects`
  const headers = { authorization: `Bearer ${client.token}` }
  const sent = await fetch(`${objects}/${idOf(text)}`, { method: 'PUT', headers, body: text })
  assert.equal(sent.status, 200)
}

async function commit(files: Record<string, string>): Promise<void> {
  for (const [name, text] of Object.entries(files)) await writeFile(join(project.path, name), text)
  await project.git('add', '.')
  await project.git('commit', '--quiet', '-m', Object.keys(files).join())
}

const push = (...args: string[]) =>
  git(project.path, ['push', ...args], { GIT_SSH_COMMAND: user.command })

async function refused(text: string, ...args: string[]): Promise<void> {
  await assert.rejects(push(...args), ({ message }: Error) => {
    assert.match(message, /pointers to Git LFS objects that the repository does not have/)
    assert.ok(message.includes(text), message)
    return true
  })
}

test('a push whose new pointers name missing objects is refused with their names', async () => {
  await upload('there')
  await commit({ 'there.bin': pointerTo('there'), 'a.txt': 'a' })
  await push('http', 'HEAD:main')
  await commit({ 'one.bin': pointerTo('one'), 'two.bin': pointerTo('two', 'ext-0-x y\n') })
  const [one, two] = ['one', 'two'].map((name) => `${idOf(name)} (${name}.bin)`)
  for (const remote of ['http', 'ssh']) {
    await refused(one ?? '', remote, 'HEAD:main')
    await refused(two ?? '', remote, 'HEAD~:refs/heads/new', 'HEAD:refs/heads/other')
  }
  const refs = await git(project.path, ['ls-remote', 'http', 'refs/heads/*'])
  assert.match(refs.stdout.trim(), /^[0-9a-f]+\trefs\/heads\/main$/)

  // As part of many objects, without the leak guard, too.
  const many = Array.from({ length: 600 }, (_, at) => [`file-${at}`, `${at}`])
  await commit(Object.fromEntries(many))
  for (const leakGuard of [true, false]) {
    assert.equal((await client.patch('/repos/site', { leakGuard })).status, 200)
    await refused(one ?? '', 'http', 'HEAD:main')
  }
  const changes = [{ path: 'x', content: pointerTo('by the API') }]
  const { status, body } = await client.post('/repos/site/commits', {
    branch: 'main',
    message: 'x',
    changes,
  })
  assert.deepEqual([status, body.code], [403, 'lfs_objects_missing'])
  assert.match(body.detail, new RegExp(idOf('by the API')))

  await commit({ 'lie.bin': pointerTo('there').replace(/size \d+/, 'size 1') })
  await refused(`${idOf('there')} (lie.bin)`, 'ssh', 'HEAD:main')
  await project.git('reset', '--quiet', '--hard', 'HEAD~')
  await upload('one')
  await refused(two ?? '', 'ssh', 'HEAD:main')
  await upload('two')
  await push('ssh', 'HEAD:main')
})

test('more pointers than are named at once are all looked for', async () => {
  const texts = Array.from({ length: 1100 }, (_, at) => `object ${at}`)
  await commit(Object.fromEntries(texts.map((text) => [`${text}.bin`, pointerTo(text)])))
  await refused('and more.', 'http', 'HEAD:main')
  await project.git('reset', '--quiet', '--hard', 'HEAD~')
})

test('pointers that the repository had may be pushed again', async () => {
  // An import brings pointers of which no object exists any more.
  await using source = await createProject()
  await source.commit('lost.bin', pointerTo('lost'))
  await source.commit('lost.bin', 'replaced')
  const imported = { source: source.path, name: 'imported' }
  assert.equal((await service.admin.post('/repos/import', imported)).status, 201)
  const remote = service.admin.remote('imported')
  await source.git('revert', '--no-edit', 'HEAD')
  await source.git('push', '--quiet', remote, 'HEAD:main')
  // A delta to one that was there, whose object is missing itself.
  await source.commit('lost.bin', pointerTo('lost as well'))
  await assert.rejects(source.git('push', remote, 'HEAD:main'), /lost\.bin/)
})

test('a repository may name another LFS server', async () => {
  const configOf = (url: string) => `[lfs]\n\turl = ${url}\n`
  await commit({
    'elsewhere.bin': pointerTo('elsewhere'),
    '.lfsconfig': configOf(`${service.url}/repos/site.git/info/lfs/`),
  })
  await refused(idOf('elsewhere'), 'http', 'HEAD:main')
  await commit({ '.lfsconfig': '[lfs\n' })
  await refused(idOf('elsewhere'), 'http', 'HEAD:main')
  await commit({ '.lfsconfig': configOf('https://lfs.example.com/site') })
  await push('http', 'HEAD:main')
})
