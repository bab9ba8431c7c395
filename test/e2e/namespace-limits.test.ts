// Tags: each-store
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, git, type Project, temporaryFolder } from '../support/git.ts'
import { requestImport } from '../support/imports.ts'
import { isShared } from '../support/kind-of-store.ts'
import { parseMetrics } from '../support/metrics-text.ts'
import { logIn } from '../support/page-client.ts'
import { without } from '../support/programs.ts'
import { type Client, type Service, startServiceWithSsh } from '../support/service.ts'
import { createSshUser, toEnded } from '../support/ssh-user.ts'

const mib = 1024 * 1024
const skip = without('openssh') || without('git-lfs')
let service: Service
let project: Project
let admin: Client
let ada: Client

before(async () => {
  project = await createProject()
  service = await startServiceWithSsh({ env: { SVC_IMPORT_LOCAL_ROOTS: project.path } })
  admin = service.admin
  ada = await service.client({ username: 'ada', permissions: ['everything'] })
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

async function namespace(name: string, limits: Record<string, number | null>): Promise<void> {
  await admin.post('/namespaces', { name })
  await admin.put(`/namespaces/${name}/members/ada`, { role: 'admin' })
  const { status, body } = await admin.patch(`/namespaces/${name}`, limits)
  assert.equal(status, 200)
  const { maxRepositories, maxBytes } = body
  assert.deepEqual(
    { maxRepositories, maxBytes },
    { maxRepositories: null, maxBytes: null, ...limits },
  )
}

const push = (name: string, refspec = 'HEAD:main') =>
  toEnded(git(project.path, ['push', ada.remote(name), refspec]))

test('admins limit the number of repositories, however they come', async () => {
  await namespace('few', { maxRepositories: 1 })
  const refused = await ada.patch('/namespaces/few', { maxRepositories: 5 })
  assert.deepEqual([refused.status, refused.body.code], [403, 'permission_missing'])
  assert.equal((await ada.get('/namespaces/few')).body.maxRepositories, 1)
  await admin.post('/namespaces', { name: 'taken' })
  const taken = await admin.patch('/namespaces/few', { maxRepositories: 3, name: 'taken' })
  assert.equal(taken.body.code, 'namespace_name_taken')
  assert.equal((await ada.get('/namespaces/few')).body.maxRepositories, 1)
  const invalid = await admin.patch('/namespaces/few', { maxRepositories: -1 })
  assert.equal(invalid.body.errors[0].pointer, '/maxRepositories')

  await ada.post('/repos', { name: 'few/old' })
  await ada.delete('/repos/few%2Fold')
  await ada.post('/repos', { name: 'few/site' })
  await ada.post('/repos', { name: 'alone' })
  const [deleted] = (await ada.get('/deleted-repos')).body
  for (const answer of [
    await ada.post('/repos', { name: 'few/more' }),
    await ada.patch('/repos/alone', { name: 'few/alone' }),
    await ada.post(`/deleted-repos/${deleted.id}/restore`),
    await requestImport(service.url, admin, { name: 'few/copy', source: project.path }),
  ]) {
    assert.deepEqual([answer.status, answer.body.code], [422, 'too_many_repositories'])
    assert.match(answer.body.detail, /^The namespace "few" may have at most 1 repositories/)
  }
  assert.equal((await ada.patch('/repos/few%2Fsite', { name: 'few/renamed' })).status, 200)
  // Out of the namespace, it makes space for another one.
  await ada.patch('/repos/few%2Frenamed', { name: 'renamed' })
  assert.equal((await ada.post(`/deleted-repos/${deleted.id}/restore`)).status, 200)
})

test('a full namespace takes no bytes by pushes, changes, Git LFS and imports, until some are freed', {
  skip,
}, async () => {
  await namespace('acme', { maxBytes: 3 * mib })
  for (const name of ['acme/site', 'acme/other', 'elsewhere']) await ada.post('/repos', { name })
  await project.commit('first', randomBytes(2 * mib))
  assert.equal((await push('acme/site')).exitCode, 0)
  await project.commit('second', randomBytes(2 * mib))

  const full = /The namespace "acme" has too little space left for this: 2 MiB of 3 MiB are used\./
  await using user = await createSshUser(service, ada)
  const attempts = [
    await push('acme/other', 'HEAD:refs/heads/next'),
    await push('acme/site'),
    await user.tryGit(project.path, 'push', user.remote('acme/site'), 'HEAD:main'),
  ]
  for (const { exitCode, stderr } of attempts) {
    assert.notEqual(exitCode, 0)
    assert.match(stderr, full)
  }
  // A push that has begun when its repository is moved there.
  await ada.post('/repos', { name: 'late' })
  await using hooks = await temporaryFolder()
  const moveLate = [
    `${service.url}/repos/late`,
    {
      method: 'PATCH',
      headers: { authorization: `Bearer ${ada.token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'acme/late' }),
    },
  ]
  await writeFile(
    join(hooks.path, 'pre-push'),
    `#!${process.execPath}\nfetch(...${JSON.stringify(moveLate)}).then(({ ok }) => process.exit(ok ? 0 : 1))\n`,
    { mode: 0o755 },
  )
  const hooked = ['-c', `core.hooksPath=${hooks.path}`, 'push']
  const late = await user.tryGit(project.path, ...hooked, user.remote('late'), 'HEAD:main')
  assert.match(late.stderr, full)
  assert.equal((await ada.patch('/repos/acme%2Flate', { name: 'late' })).status, 200)
  const imported = await requestImport(service.url, admin, {
    name: 'acme/copy',
    source: project.path,
  })
  assert.deepEqual([imported.status, imported.body.code], [507, 'namespace_full'])
  assert.match(imported.body.detail, full)
  assert.equal((await push('elsewhere')).exitCode, 0)
  const moved = await ada.patch('/repos/elsewhere', { name: 'acme/elsewhere' })
  assert.deepEqual([moved.status, moved.body.code], [507, 'namespace_full'])

  // Less than what is looked at before it is there.
  await admin.patch('/namespaces/acme', { maxBytes: 2 * mib })
  await project.git('reset', '--quiet', '--hard', 'HEAD~')
  await project.commit('third')
  const small = await push('acme/site')
  assert.match(small.stderr, /remote: The namespace "acme" .*: 2 MiB of 2 MiB are used\./)
  const changes = [{ path: 'fourth', content: 'fourth' }]
  const change = { branch: 'main', message: 'Fourth', changes }
  const refused = await ada.post('/repos/acme%2Fsite/commits', change)
  assert.deepEqual([refused.status, refused.body.code], [507, 'namespace_full'])
  // What takes no bytes is possible.
  const topic = '/repos/acme%2Fsite/refs?ref=refs/heads/topic'
  assert.equal((await ada.put(topic, { target: 'main' })).status, 201)
  assert.equal((await push('acme/site', ':refs/heads/topic')).exitCode, 0)

  const bytes = randomBytes(1000)
  const oid = createHash('sha256').update(bytes).digest('hex')
  const objects = '/repos/acme/site.git/info/lfs/objects'
  const batch = { operation: 'upload', objects: [{ oid, size: bytes.length }] }
  const { body: replies } = await ada.post(`${objects}/batch`, batch)
  assert.equal(replies.objects[0].error.code, 507)
  const uploaded = await fetch(`${service.url}${objects}/${oid}`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${ada.token}` },
    body: bytes,
  })
  assert.equal(uploaded.status, 507)
  await using home = await temporaryFolder()
  const lfs = (...args: string[]) =>
    toEnded(git(project.path, args, { HOME: home.path, GIT_CONFIG_GLOBAL: `${home.path}/config` }))
  await lfs('lfs', 'install', '--skip-repo')
  await lfs('lfs', 'track', '*.bin')
  await writeFile(join(project.path, 'large.bin'), bytes)
  await lfs('add', '.')
  await lfs('commit', '--quiet', '-m', 'Large file')
  const byLfs = await lfs('push', ada.remote('acme/site'), 'HEAD:main')
  assert.match(byLfs.stderr, /The namespace "acme" .*: 2 MiB of 2 MiB are used\./)

  await admin.patch('/namespaces/acme', { maxBytes: 3 * mib })
  const after = await lfs('push', ada.remote('acme/site'), 'HEAD:main')
  assert.equal(after.exitCode, 0, after.stderr)
  const used = async () => (await ada.get('/namespaces/acme/usage')).body
  const total = async (field: string): Promise<number> =>
    (await used()).days.reduce(
      (sum: number, day: Record<string, number>) => sum + (day[field] ?? 0),
      0,
    )
  const { bytes: usedBytes, repositories, days } = await used()
  assert.equal(repositories, 2)
  const { sizeBytes } = (await ada.get('/repos/acme%2Fsite')).body
  const { sizeBytes: otherBytes } = (await ada.get('/repos/acme%2Fother')).body
  assert.equal(usedBytes, sizeBytes + otherBytes)
  // A deleted repository takes its bytes until it is purged, so a restoration takes none, unless it is a move.
  const { id } = (await ada.get('/repos/acme%2Fsite')).body
  const { id: elsewhere } = (await ada.get('/repos/elsewhere')).body
  await ada.delete('/repos/acme%2Fsite')
  assert.equal((await used()).bytes, usedBytes)
  await admin.patch('/namespaces/acme', { maxBytes: mib })
  assert.notEqual((await push('acme/other')).exitCode, 0)
  assert.equal((await ada.post(`/deleted-repos/${id}/restore`)).status, 200)
  await admin.patch('/namespaces/acme', { maxBytes: 3 * mib })
  await ada.delete('/repos/acme%2Fsite')
  await ada.delete('/repos/elsewhere')
  const restored = await ada.post(`/deleted-repos/${elsewhere}/restore`, { name: 'acme/elsewhere' })
  assert.deepEqual([restored.status, restored.body.code], [507, 'namespace_full'])
  await ada.delete(`/deleted-repos/${id}`)
  assert.equal((await used()).bytes, otherBytes)
  assert.equal((await push('acme/other')).exitCode, 0)

  assert.match(days[0].day, /^\d{4}-\d\d-\d\d$/)
  assert.ok((await total('receivedBytes')) > 2 * mib)
  await user.git(home.path, 'clone', '--quiet', user.remote('acme/other'), 'copy')
  await until('the clone is counted', async () => (await total('sentBytes')) > 2 * mib)
  // With the creation and the deletion of a branch.
  assert.deepEqual([await total('pushes'), await total('fetches')], [5, 1])
  const none = await ada.get(`/namespaces/acme/usage?until=${Date.now() - 2 * 86_400_000}`)
  assert.deepEqual(none.body.days, [])
  const { samples } = parseMetrics((await admin.get('/metrics')).text)
  const ofAcme = samples.filter(({ labels }) => labels.namespace === 'acme')
  const pushed = ofAcme.find(({ name }) => name === 'svc_namespace_pushes_total')
  assert.equal(pushed?.value, 5)
  const eve = await service.client({ username: 'eve', permissions: ['everything'] })
  assert.equal((await eve.get('/namespaces/acme/usage')).status, 404)
  await admin.patch('/repos/acme%2Fother', { visibility: 'public' })
  assert.equal((await eve.get('/namespaces/acme')).body.maxBytes, null)
  assert.equal((await eve.get('/namespaces/acme/usage')).body.code, 'role_insufficient')
  const pages = await logIn(service.url, ada.token)
  const page = (await pages.get('/-/namespaces/acme')).text
  assert.match(page, /1 repository, [\d.]+ MiB of at most 3 MiB\..*5 pushes, 1 fetch, /s)
})

test(
  'of concurrent pushes to several repositories, no more succeed than fit',
  exhaustive,
  async () => {
    await namespace('raced', { maxBytes: 1.25 * mib })
    const attempts = [0, 1, 2, 3].map(async (index) => {
      await using own = await createProject()
      await own.commit('large', randomBytes(mib / 2))
      await ada.post('/repos', { name: `raced/${index}` })
      return await toEnded(git(own.path, ['push', ada.remote(`raced/${index}`), 'HEAD:main']))
    })
    const ended = await Promise.all(attempts)
    assert.equal(ended.filter(({ exitCode }) => exitCode === 0).length, 2, JSON.stringify(ended))
    assert.ok((await ada.get('/namespaces/raced/usage')).body.bytes < 1.25 * mib)
  },
)

test('a server that is killed during a push leaves no bytes reserved', exhaustive, async () => {
  await using folder = await temporaryFolder()
  const dataDir = join(folder.path, 'data')
  const adminToken = service.adminToken
  const env = { SVC_ADMIN_TOKEN: adminToken }
  const step = isShared ? 'shared-push.stored' : 'push.moved'
  const killed = await startServiceWithSsh({ dataDir, env: { ...env, SVC_FAULT_POINT: step } })
  await killed.admin.post('/namespaces', { name: 'acme' })
  await killed.admin.patch('/namespaces/acme', { maxBytes: 3 * mib })
  await killed.admin.post('/repos', { name: 'acme/site' })
  await project.git('reset', '--quiet', '--hard', 'main')
  await project.git('switch', '--quiet', '--orphan', 'again')
  await project.commit('first', randomBytes(2 * mib))
  await toEnded(git(project.path, ['push', killed.admin.remote('acme/site'), 'HEAD:main']))
  await killed.end('SIGKILL')
  await using again = await startServiceWithSsh({ dataDir, env })
  const ended = await toEnded(
    git(project.path, ['push', again.admin.remote('acme/site'), 'HEAD:main']),
  )
  assert.equal(ended.exitCode, 0, ended.stderr)
  const { bytes } = (await again.admin.get('/namespaces/acme/usage')).body
  const { sizeBytes } = (await again.admin.get('/repos/acme%2Fsite')).body
  assert.equal(bytes, sizeBytes)
})
