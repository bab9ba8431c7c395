import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createProject, git } from '../support/git.ts'
import { createPageClient } from '../support/page-client.ts'
import { without } from '../support/programs.ts'
import { createClient, startServiceWithSsh } from '../support/service.ts'
import { newKeyLine } from '../support/ssh-keys.ts'
import { createSshUser, type Ended, toEnded } from '../support/ssh-user.ts'

test('a deploy key reaches its repositories with the role of its user, and nothing else', {
  skip: without('openssh'),
}, async () => {
  await using service = await startServiceWithSsh()
  await using project = await createProject()
  const permissions = ['repo:read', 'repo:write', 'repo:delete', 'collaborator:write']
  const ada = await service.client({ username: 'ada', permissions })
  const grace = await service.client({ username: 'grace' })
  for (const name of ['site', 'vault']) {
    await ada.post('/repos', { name })
    await project.git('push', ada.remote(name), 'HEAD:main')
  }
  await ada.post('/repos/site/collaborators', { username: 'grace', role: 'write' })

  await using user = await createSshUser(service)
  const deployKey = { name: 'deploy', publicKey: user.publicKey, repositories: ['site'] }
  for (const [client, wanted, status, code] of [
    [ada, { repositories: ['nothing'] }, 404, 'repository_not_found'],
    [grace, { repositories: ['vault'] }, 404, 'repository_not_found'],
    [ada, { repositories: [] }, 400, 'invalid_request'],
    [ada, { permissions: ['repo:delete'] }, 400, 'invalid_request'],
  ] as const) {
    const { status: actual, body } = await client.post('/keys', { ...deployKey, ...wanted })
    assert.deepEqual([actual, body.code], [status, code])
  }
  // A token for one repository cannot leave a key behind that outlives it.
  const { body: limited } = await service.admin.post('/tokens', {
    ...{ name: 'limited', username: 'ada', repositories: ['site'] },
  })
  const refused = await createClient(service.url, limited.token).post('/keys', deployKey)
  assert.equal(refused.body.code, 'token_limited')

  const added = await grace.post('/keys', { ...deployKey, permissions: ['write'] })
  assert.equal(added.status, 201, added.text)
  assert.deepEqual(added.body.permissions, ['repo:read', 'repo:write'])
  assert.deepEqual(added.body.repositories, ['site'])
  await ada.post('/repos/vault/collaborators', { username: 'grace', role: 'write' })

  // Grace sees both; the key sees one, and the other as one that was never there.
  const shown = async (line: string) => (await user.ssh(`${line} --json`)).stdout
  const names = async () =>
    JSON.parse(await shown('repos')).map(({ name }: { name: string }) => name)
  assert.deepEqual(await names(), ['site'])
  assert.deepEqual(JSON.parse(await shown('whoami')).repositories, ['site'])
  assert.equal(JSON.parse(await shown('info site')).name, 'site')
  const lines = (name: string) => [
    `info ${name}`,
    `git-upload-pack '${name}.git'`,
    `git-receive-pack '${name}.git'`,
    `git-upload-archive '${name}.git'`,
    `git-lfs-authenticate ${name}.git download`,
    `git-lfs-authenticate ${name}.git upload`,
  ]
  const refusals = async (name: string) => {
    const ended: Ended[] = []
    for (const line of lines(name)) ended.push(await user.ssh(line))
    return ended.map(({ exitCode, stdout, stderr }) => ({
      ...{ exitCode, stdout, stderr: stderr.replaceAll(name, '*') },
    }))
  }
  const hidden = await refusals('vault')
  assert.deepEqual(hidden, await refusals('never'))
  for (const { exitCode, stdout } of hidden) assert.ok(exitCode > 0 && stdout === '')

  await user.git(project.path, 'push', user.remote('site'), 'HEAD:by-key')
  assert.match((await user.git(project.path, 'ls-remote', user.remote('site'))).stdout, /by-key/)
  const archive = ['archive', `--remote=${user.remote('site')}`, 'by-key']
  assert.equal((await user.tryGit(project.path, ...archive)).exitCode, 0)
  const access = JSON.parse((await user.ssh('git-lfs-authenticate site.git upload')).stdout)
  const listLocks = (name: string) =>
    fetch(`${service.url}/repos/${name}.git/info/lfs/locks`, { headers: access.header })
  assert.deepEqual(
    [(await listLocks('site')).status, (await listLocks('vault')).status],
    [200, 404],
  )

  // A session that it opens has its limits.
  const { url } = JSON.parse(await shown('login'))
  const page = createPageClient(service.url)
  await page.post(new URL(url).pathname, {})
  assert.deepEqual(
    [(await page.get('/r/site')).status, (await page.get('/r/vault')).status],
    [200, 404],
  )
  assert.doesNotMatch((await page.get('/')).text, /vault/)
  const another = { publicKey: newKeyLine(), name: 'another' }
  assert.notEqual((await page.post('/-/keys', another)).status, 303)

  // It belongs to the repository, not to its name.
  await ada.patch('/repos/site', { name: 'moved' })
  await ada.post('/repos', { name: 'site' })
  await ada.post('/repos/site/collaborators', { username: 'grace' })
  assert.deepEqual(await names(), ['moved'])
  assert.equal((await user.ssh('info site')).exitCode, hidden[0]?.exitCode)
  await ada.delete('/repos/moved')
  assert.deepEqual(await names(), [])
  assert.deepEqual((await grace.get('/keys')).body[0].repositories, [])
  const [deleted] = (await ada.get('/deleted-repos')).body
  await ada.post(`/deleted-repos/${deleted.id}/restore`, {})
  assert.deepEqual((await grace.get('/keys')).body[0].repositories, ['moved'])

  // It has what its user has at that moment.
  await ada.delete('/repos/moved/collaborators/grace')
  await ada.post('/repos/moved/collaborators', { username: 'grace', role: 'read' })
  const push = () => user.tryGit(project.path, 'push', user.remote('moved'), 'HEAD:again')
  assert.match((await push()).stderr, /Your role in this repository is read/)
  await ada.delete('/repos/moved/collaborators/grace')
  assert.deepEqual(await names(), [])
  assert.equal((await listLocks('moved')).status, 404)
  assert.deepEqual(await refusals('moved'), hidden)

  // What anybody may fetch, also by an old address, the key and the token may, too; and nothing else.
  await ada.patch('/repos/vault', { visibility: 'public' })
  await ada.patch('/repos/vault', { name: 'open' })
  const token = createClient(service.url, limited.token)
  const fetched = () =>
    Promise.all([
      user.tryGit(project.path, 'ls-remote', user.remote('vault')),
      toEnded(git(project.path, ['ls-remote', token.remote('open')])),
    ])
  for (const { exitCode, stdout } of await fetched())
    assert.deepEqual([exitCode, stdout.includes('refs/heads/main')], [0, true])
  assert.notEqual(
    (await user.tryGit(project.path, 'push', user.remote('open'), 'HEAD:x')).exitCode,
    0,
  )
  assert.deepEqual([await names(), (await token.get('/repos/open')).status], [[], 404])
  await ada.patch('/repos/open', { visibility: 'internal' })
  for (const { exitCode } of await fetched()) assert.notEqual(exitCode, 0)
})
