import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, git, temporaryFolder } from '../support/git.ts'
import { updateRefs } from '../support/history.ts'
import {
  assertSameContent,
  assertSound,
  contentOf,
  createOddSource,
  headOf,
  startGitDaemon,
} from '../support/import-sources.ts'
import { untilTidy } from '../support/leftovers.ts'
import { assertFrugal } from '../support/memory.ts'
import { importingGits } from '../support/processes.ts'
import { without } from '../support/programs.ts'
import { isSoak } from '../support/rounds.ts'
import { type Service, startServiceWithSsh } from '../support/service.ts'
import { createLargeProject } from '../support/ssh-site.ts'
import { openTables } from '../support/tables.ts'

const mib = 1024 * 1024

let service: Service
let other: Service
let odd: Awaited<ReturnType<typeof createOddSource>>
let daemon: Awaited<ReturnType<typeof startGitDaemon>>

before(async () => {
  service = await startServiceWithSsh()
  other = await startServiceWithSsh({ env: { SVC_SSH_ANONYMOUS_READ: 'true' } })
  odd = await createOddSource()
  daemon = await startGitDaemon(odd.folder)
  await other.admin.post('/repos', { name: 'private' })
  await git(odd.path, ['push', '--quiet', other.admin.remote('private'), '+refs/*:refs/*'])
})

after(async () => {
  await daemon[Symbol.asyncDispose]()
  await odd[Symbol.asyncDispose]()
  await other[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
})

const sources: Record<string, { source: () => string; skip?: string | false }> = {
  'a bare repository of the server': { source: () => odd.path },
  'git://': { source: () => `${daemon.url}/odd.git` },
  'HTTP, with a token in the address': { source: () => other.admin.remote('private') },
  SSH: {
    source: () => `ssh://anonymous@127.0.0.1:${other.sshPort}/private.git`,
    skip: without('openssh'),
  },
}

for (const [way, { source, skip = false }] of Object.entries(sources)) {
  test(`every ref is imported from ${way}, and the repository is like any other`, {
    skip,
  }, async () => {
    const imported = await service.admin.post('/repos/import', { source: source(), name: 'copy' })
    assert.equal(imported.status, 201, imported.text)
    assert.equal(imported.headers.get('location'), '/repos/copy')
    const { id, path, ...described } = imported.body
    assert.deepEqual(
      [described.name, described.state, described.import, described.empty],
      ['copy', 'ready', null, false],
    )
    assert.equal(described.defaultBranch, 'main')
    assert.ok(described.sizeBytes > 0)
    assert.deepEqual(imported.body, (await service.admin.get('/repos/copy')).body)
    await assertSameContent(path, odd.path)
    await untilTidy(service.dataDir)
    await assertUsable('copy')
    await assertReported(id, source())
    assert.equal((await service.admin.delete('/repos/copy')).status, 204)
  })
}

test('a working copy is imported with its branches, and only its .git folder is read', async () => {
  await using project = await createProject()
  await project.git('switch', '--quiet', '-c', 'topic')
  await project.commit('topic.txt')
  for (const [source, name] of [
    [project.path, 'of-folder'],
    [`${project.path}/.git/`, 'of-git-folder'],
  ]) {
    const { status, body, text } = await service.admin.post('/repos/import', { source, name })
    assert.equal(status, 201, text)
    assert.equal(body.defaultBranch, 'topic')
    await assertSameContent(body.path, join(project.path, '.git'))
  }
})

test('HEAD is that of the source, if it is supported', async () => {
  await using folder = await temporaryFolder()
  await using project = await createProject()
  await project.git('branch', 'develop')
  const path = join(folder.path, 'heads.git')
  await git('/', ['clone', '--quiet', '--mirror', project.path, path])
  await using heads = await startGitDaemon(folder.path)
  const setHead = async (words: string[]) => git(path, words)
  const main = await project.git('rev-parse', 'main')
  const cases: [string, string[], string][] = [
    ['another branch', ['symbolic-ref', 'HEAD', 'refs/heads/develop'], 'refs/heads/develop'],
    ['a branch still to come', ['symbolic-ref', 'HEAD', 'refs/heads/next'], 'refs/heads/main'],
    ['a commit', ['update-ref', '--no-deref', 'HEAD', main], 'refs/heads/main'],
  ]
  for (const [what, words, expected] of cases) {
    await setHead(words)
    for (const source of [path, `${heads.url}/heads.git`]) {
      const imported = await service.admin.post('/repos/import', { source, name: 'heads' })
      assert.equal(imported.status, 201, `${what}, ${source}: ${imported.text}`)
      assert.equal(await headOf(imported.body.path), expected, `${what}, ${source}`)
      assert.equal(`refs/heads/${imported.body.defaultBranch}`, expected)
      await service.admin.delete('/repos/heads')
    }
    // A symbolic HEAD again, for the next one.
    await git(path, ['symbolic-ref', 'HEAD', 'refs/heads/main'])
  }
})

test('an empty repository is imported, too', async () => {
  await using folder = await temporaryFolder()
  const path = join(folder.path, 'empty.git')
  await git('/', ['init', '--quiet', '--bare', '--initial-branch=trunk', path])
  await using empty = await startGitDaemon(folder.path)
  for (const source of [path, `${empty.url}/empty.git`]) {
    const { status, body, text } = await service.admin.post('/repos/import', { source })
    assert.equal(status, 201, text)
    assert.deepEqual([body.name, body.empty, body.defaultBranch], ['empty', true, 'trunk'])
    await assertSound(body.path)
    await service.admin.delete('/repos/empty')
  }
})

test('refs that cannot be pushed are not imported', async () => {
  await using folder = await temporaryFolder()
  await using project = await createProject()
  const [main, other] = [await project.git('rev-parse', 'HEAD'), await project.commit('other.txt')]
  await updateRefs(project.path, [
    `create refs/replace/${main} ${other}`,
    `create refs/svc/hidden ${main}`,
    `create refs/heads/-option ${main}`,
    `create refs/heads/HEAD ${main}`,
    `create refs/heads/${'a'.repeat(40)} ${main}`,
  ])
  await git('/', ['clone', '--quiet', '--mirror', project.path, join(folder.path, 'refused.git')])
  await using refused = await startGitDaemon(folder.path)
  for (const source of [project.path, `${refused.url}/refused.git`]) {
    const { body, text } = await service.admin.post('/repos/import', { source, name: 'refused' })
    assert.equal(await contentOf(body.path), `${other} refs/heads/main`, text)
    await service.admin.delete('/repos/refused')
  }
})

test(
  'more refs than fit into a pipe are imported, from a folder and over the network',
  exhaustive,
  async () => {
    await using folder = await temporaryFolder()
    await using project = await createProject()
    const main = await project.git('rev-parse', 'HEAD')
    // In sum 100 KiB of names.
    const numbers = Array.from({ length: isSoak ? 4000 : 400 }, (_, index) => index)
    const long = '-'.repeat(200)
    await updateRefs(
      project.path,
      numbers.map((index) => `create refs/heads/part-${index % 20}/branch-${index}${long} ${main}`),
    )
    await git('/', ['clone', '--quiet', '--mirror', project.path, join(folder.path, 'refs.git')])
    await using many = await startGitDaemon(folder.path)
    for (const source of [project.path, `${many.url}/refs.git`]) {
      const { status, body, text } = await service.admin.post('/repos/import', {
        source,
        name: 'refs',
      })
      assert.equal(status, 201, text)
      await assertSameContent(body.path, join(project.path, '.git'))
      await service.admin.delete('/repos/refs')
    }
  },
)

test('a large repository is imported with flat memory', exhaustive, async () => {
  await using folder = await temporaryFolder()
  await using project = await createLargeProject(64 * mib)
  const bare = join(folder.path, 'large.git')
  await git('/', ['clone', '--quiet', '--mirror', '--no-hardlinks', project.path, bare])
  await other.admin.post('/repos', { name: 'large' })
  await git(bare, ['push', '--quiet', other.admin.remote('large'), 'main'])
  const remote = other.admin.remote('large')
  // The first import over HTTP leaves pieces to the collector; those after it take no more.
  const limits = [
    [bare, 40],
    [remote, 128],
    [remote, 40],
  ] as const
  for (const [source, mayGrowMib] of limits) {
    const act = async () => {
      const imported = await service.admin.post('/repos/import', { source, name: 'large' })
      assert.equal(imported.status, 201, imported.text)
      assert.ok(imported.body.sizeBytes > 64 * mib)
    }
    await assertFrugal(service, act, mayGrowMib * mib)
    await service.admin.delete('/repos/large')
  }
  assert.deepEqual(importingGits(service.dataDir), [])
  await other.admin.delete('/repos/large')
})

test('the owner of an imported repository is the user who imported it', async () => {
  const ada = await service.client({ username: 'ada' })
  const bob = await service.client({ username: 'bob' })
  const source = other.admin.remote('private')
  const imported = await ada.post('/repos/import', { source, name: 'of-ada' })
  assert.equal(imported.status, 201, imported.text)
  assert.equal(imported.body.ownerTokenId, ada.id)
  assert.equal((await ada.put('/repos/of-ada/protections/branches/main')).status, 200)
  assert.equal((await bob.get('/repos/of-ada')).status, 404)
  const reader = await service.client({ username: 'reader', permissions: ['repo:read'] })
  const refused = await reader.post('/repos/import', { source, name: 'of-reader' })
  assert.deepEqual([refused.status, refused.body.code], [403, 'permission_missing'])
})

async function assertUsable(name: string): Promise<void> {
  await using folder = await temporaryFolder()
  const clone = join(folder.path, 'clone')
  await git('/', ['clone', '--quiet', service.admin.remote(name), clone])
  const who = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com']
  await git(clone, [...who, 'commit', '--quiet', '--allow-empty', '-m', 'More'])
  await git(clone, ['push', '--quiet', 'origin', 'HEAD:main', 'HEAD:refs/heads/new'])
  const { stdout } = await git(clone, ['rev-parse', 'HEAD'])
  const refs = (await git('/', ['ls-remote', service.admin.remote(name)])).stdout
  for (const ref of ['HEAD', 'refs/heads/main', 'refs/heads/new']) {
    assert.ok(refs.includes(`${stdout}\t${ref}`), `${ref} in ${refs}`)
  }
  assert.equal((await service.admin.put(`/repos/${name}/protections/branches/main`)).status, 200)
}

/** Nothing that the service keeps or says has the credentials of the source. */
async function assertReported(id: string, source: string): Promise<void> {
  using database = openTables(service.dataDir)
  const [event, ...more] = database.events(id).filter(({ kind }) => kind === 'repository.imported')
  assert.deepEqual(more, [])
  const shown = source.replace(/\/\/[^/@]*@/, '//')
  assert.deepEqual(event?.data, { name: 'copy', source: shown })
  assert.ok(!database.text().includes(other.adminToken))
  assert.ok(!service.log().includes(other.adminToken))
}
