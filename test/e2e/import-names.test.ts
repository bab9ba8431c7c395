// Tags: each-store
import assert from 'node:assert/strict'
import { mkdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createProject, type Project, temporaryFolder } from '../support/git.ts'
import { startGate, startGitDaemon } from '../support/import-sources.ts'
import { importAsync } from '../support/imports.ts'
import { leftoversIn } from '../support/leftovers.ts'
import { type Service, startService } from '../support/service.ts'

let service: Service
let project: Project
let folder: Awaited<ReturnType<typeof temporaryFolder>>

before(async () => {
  folder = await temporaryFolder()
  service = await startService({
    env: { SVC_IMPORT_LOCAL_ROOTS: `${folder.path}/public:${folder.path}/nowhere` },
  })
  project = await createProject()
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
  await folder[Symbol.asyncDispose]()
})

test('a repository is named after its source, unless a name is given', async () => {
  const path = join(folder.path, 'My.Project.git')
  await project.git('clone', '--quiet', '--bare', '.', path)
  const derived = await service.admin.post('/repos/import', { source: `${path}/` })
  assert.deepEqual([derived.status, derived.body.name], [201, 'My.Project'])
  const given = await service.admin.post('/repos/import', { source: path, name: 'other' })
  assert.deepEqual([given.status, given.body.name], [201, 'other'])
})

test('a source with an invalid name is imported only under another', async () => {
  for (const name of ['-odd', 'a..b', 'größe', 'import', 'health', 'Import']) {
    const path = join(folder.path, `${name}.git`)
    await project.git('clone', '--quiet', '--bare', '.', path)
    const refused = await service.admin.post('/repos/import', { source: path })
    assert.deepEqual([refused.status, refused.body.code], [400, 'invalid_request'], name)
    assert.deepEqual(refused.body.errors[0].pointer, '/name')
    assert.match(refused.body.detail, /No valid repository name can be derived from the source/)
    await rename(path, join(folder.path, 'done'))
    await service.admin.post('/repos/import', { source: join(folder.path, 'done'), name: 'fine' })
    assert.equal((await service.admin.delete('/repos/fine')).status, 204)
    await rename(join(folder.path, 'done'), `${folder.path}/done-${name}`)
  }
})

test('an invalid or unknown field is rejected', async () => {
  const source = project.path
  const cases: [object, RegExp][] = [
    [{ source, name: 'a..b' }, /\/name/],
    [{ source, name: 'import' }, /\/name/],
    [{ source, name: 'x.git' }, /\/name/],
    [{ source, name: null }, /\/name/],
    [{ source, name: 'x', branch: 'main' }, /\/branch is not a field of this request/],
    [{ name: 'x' }, /\/source/],
    [{ source: 5, name: 'x' }, /\/source/],
    [{ source: '', name: 'x' }, /\/source/],
    [{ source: './here', name: 'x' }, /\/source is a relative path/],
    [{ source: `file://${source}`, name: 'x' }, /\/source is a file:\/\/ address/],
  ]
  for (const [body, expected] of cases) {
    const refused = await service.admin.post('/repos/import', body)
    assert.deepEqual([refused.status, refused.body.code], [400, 'invalid_request'])
    assert.match(refused.body.detail, expected)
  }
})

test('a taken name is rejected in any case, also during an import', async () => {
  await using daemon = await startGitDaemon(folder.path)
  using gate = await startGate(daemon.port, 0)
  await service.admin.post('/repos', { name: 'Taken' })
  await importAsync(service.admin, { source: `git://127.0.0.1:${gate.port}/x`, name: 'Coming' })
  for (const name of ['Taken', 'taken', 'TAKEN', 'Coming', 'coming']) {
    const refused = await service.admin.post('/repos/import', { source: project.path, name })
    assert.deepEqual([refused.status, refused.body.code], [409, 'repository_name_taken'], name)
    const created = await service.admin.post('/repos', { name })
    assert.deepEqual([created.status, created.body.code], [409, 'repository_name_taken'], name)
  }
  const renamed = await service.admin.patch('/repos/Taken', { name: 'coming' })
  assert.deepEqual([renamed.status, renamed.body.code], [409, 'repository_name_taken'])
  assert.equal((await service.admin.delete('/repos/Coming')).status, 204)
  assert.equal((await service.admin.post('/repos', { name: 'coming' })).status, 201)
})

test('of concurrent imports with one name, one succeeds', async () => {
  const attempts = Array.from({ length: 8 }, (_, index) =>
    service.admin.post('/repos/import', {
      source: project.path,
      name: index % 2 === 0 ? 'contended' : 'Contended',
    }),
  )
  const statuses = (await Promise.all(attempts)).map(({ status }) => status).sort()
  assert.deepEqual(statuses, [201, ...Array<number>(7).fill(409)])
  assert.deepEqual(await leftoversIn(service.dataDir), [])
})

test('paths of the server are for admins, except under the open roots', async () => {
  const member = await service.client({ username: 'member' })
  const inside = join(folder.path, 'public', 'inside.git')
  await mkdir(join(folder.path, 'public'))
  await project.git('clone', '--quiet', '--bare', '.', inside)
  const forbidden = [
    project.path,
    '/etc/passwd',
    '/nonexistent',
    `${folder.path}/public-not`,
    `${folder.path}/nowhere-else`,
    service.dataDir,
  ]
  for (const source of forbidden) {
    const refused = await member.post('/repos/import', { source, name: 'of-member' })
    assert.deepEqual([refused.status, refused.body.code], [403, 'source_forbidden'], source)
  }
  const allowed = await member.post('/repos/import', { source: inside })
  assert.deepEqual([allowed.status, allowed.body.name], [201, 'inside'], allowed.text)
  assert.equal(
    (await service.admin.post('/repos/import', { source: project.path, name: 'by-admin' })).status,
    201,
  )

  // Not even an admin takes a repository out of the data directory, whose rows would not come along.
  const { path } = (await service.admin.get('/repos/by-admin')).body
  for (const source of [service.dataDir, path, join(path, 'objects')]) {
    const refused = await service.admin.post('/repos/import', { source, name: 'again' })
    assert.deepEqual([refused.status, refused.body.code], [403, 'source_forbidden'], source)
  }
})

test('a source that is not a repository is rejected, and leaves its name free and no files', async () => {
  const cases: [string, RegExp][] = [
    [`${folder.path}/nothing`, /There is nothing at this path/],
    [folder.path, /There is no Git repository at the source/],
    ['/dev/null', /The source is no folder/],
    ['http://127.0.0.1:9/x.git', /cannot be reached: the connection was refused/],
    ['git://127.0.0.1:9/x.git', /cannot be reached: Connection refused/],
    [`${service.url}/repos/unknown.git`, /requires credentials/],
    [service.admin.remote('unknown'), /There is no repository at the source/],
    [`${service.url.replace('//', '//git:wrong@')}/repos/x.git`, /not accept these credentials/],
  ]
  for (const [source, expected] of cases) {
    const refused = await service.admin.post('/repos/import', { source, name: 'never' })
    assert.deepEqual([refused.status, refused.body.code], [422, 'import_failed'], source)
    assert.match(refused.body.detail, expected)
    assert.equal((await service.admin.get('/repos/never')).status, 404)
    assert.deepEqual(await leftoversIn(service.dataDir), [])
  }
  assert.equal((await service.admin.post('/repos', { name: 'never' })).status, 201)
})
