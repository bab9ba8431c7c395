// Tags: each-store

import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createProject, git, type Project, temporaryFolder } from '../support/git.ts'
import { objectFormat } from '../support/object-format.ts'
import { type Client, type Service, startService } from '../support/service.ts'

let service: Service
let project: Project
let admin: Client
let site: string
let tip: string

before(async () => {
  service = await startService()
  project = await createProject()
  admin = service.admin
  site = admin.remote('site')
  await admin.post('/repos', { name: 'site' })
  for (const name of ['a.txt', 'b.txt', 'c.txt']) tip = await project.commit(name)
  await project.git('tag', '-a', '-m', 'first', 'v1')
  await project.git('push', '--quiet', site, 'main', 'v1')
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

for (const version of ['0', '1', '2']) {
  test(`protocol version ${version}: clone, fetch, push, list`, async () => {
    await using folder = await temporaryFolder()
    const run = (...args: string[]) =>
      git(folder.path, ['-c', `protocol.version=${version}`, ...args], { GIT_TRACE_PACKET: '1' })
    const { stderr } = await run('clone', '--bare', '--quiet', site, 'copy')
    assert.equal(/< version 2/.test(stderr), version === '2')
    assert.equal(/< version 1/.test(stderr), version === '1')
    const copy = ['--git-dir', join(folder.path, 'copy')]
    assert.equal((await run(...copy, 'rev-parse', 'main')).stdout, tip)
    await run(...copy, 'push', '--quiet', site, `main~1:refs/heads/by-version-${version}`)
    assert.match(
      (await run('ls-remote', site)).stdout,
      new RegExp(`refs/heads/by-version-${version}`),
    )
    await run(...copy, 'fetch', '--quiet', site, 'main')
    await run(...copy, 'push', '--quiet', site, `:refs/heads/by-version-${version}`)
    await run(...copy, 'fsck', '--full', '--strict')
  })

  test(`protocol version ${version}: shallow and partial clones, deepened and completed later`, async () => {
    await using folder = await temporaryFolder()
    const run = (...args: string[]) =>
      git(folder.path, ['-c', `protocol.version=${version}`, ...args])
    await run('clone', '--quiet', '--depth=1', site, 'shallow')
    const shallow = join(folder.path, 'shallow')
    assert.equal((await git(shallow, ['rev-list', '--count', 'HEAD'])).stdout, '1')
    await git(shallow, ['-c', `protocol.version=${version}`, 'fetch', '--quiet', '--unshallow'])
    assert.equal((await git(shallow, ['rev-list', '--count', 'HEAD'])).stdout, '4')
    await run('clone', '--quiet', '--no-checkout', '--filter=blob:none', site, 'partial')
    const partial = join(folder.path, 'partial')
    const missing = await git(partial, ['rev-list', '--objects', '--missing=print', 'HEAD'])
    assert.match(missing.stdout, /^\?[0-9a-f]{40,64}$/m)
    await git(partial, ['-c', `protocol.version=${version}`, 'checkout', '--quiet', 'main'])
    assert.equal(await readFile(join(partial, 'c.txt'), 'utf8'), 'c.txt')
  })
}

test('a long, compressed list of wants is accepted', async () => {
  await using folder = await temporaryFolder()
  const refspecs = Array.from({ length: 60 }, (_, index) => `main:refs/heads/many/${index}`)
  await project.git('push', '--quiet', site, ...refspecs)
  // Without shared history, git lists what it has and what it wants in a request of several kilobytes.
  await git(folder.path, ['init', '--quiet', '--bare'])
  const { stderr } = await git(folder.path, ['fetch', site, 'refs/heads/*:refs/heads/*'], {
    GIT_CURL_VERBOSE: '1',
  })
  assert.match(stderr, /Content-Encoding: gzip|POST git-upload-pack/i)
  assert.match(stderr, /many\/59/)
})

test('an atomic push is all or nothing', async () => {
  const error = await project
    .git('push', '--atomic', site, 'main:refs/heads/one', `${tip}~1:refs/heads/main`)
    .then(
      () => assert.fail('it was let in'),
      (fault) => fault,
    )
  assert.match(error.stderr, /rejected/)
  assert.doesNotMatch(await project.git('ls-remote', site), /refs\/heads\/one/)
})

test('the default branch cannot be deleted, so that a clone always has one', async () => {
  await assert.rejects(
    project.git('push', site, ':refs/heads/main'),
    /"main" is the default branch/,
  )
})

test('a push that deletes the default branch and has its successor moves HEAD to it', async () => {
  const push = async (name: string, ...specs: string[]) => {
    await project.git('push', '--quiet', admin.remote(name), ...specs)
    return (await admin.get(`/repos/${name}`)).body.defaultBranch
  }
  const renamings: [start: string, specs: string[], expected: string | undefined][] = [
    ['master', ['main:main'], 'main'],
    ['develop', ['main:trunk', 'main:a', 'main:b'], 'trunk'],
    ['main', ['main:next'], 'next'],
    ['main', ['main:one', 'main:two'], undefined],
    ['main', ['v1'], undefined],
  ]
  for (const [number, [start, specs, expected]] of renamings.entries()) {
    const name = `renamed-${number}`
    await admin.post('/repos', { name })
    assert.equal(await push(name, `main:refs/heads/${start}`, 'main:refs/heads/more'), start)
    const renamed = push(
      name,
      ...specs.map((spec) => spec.replace(':', ':refs/heads/')),
      `:${start}`,
    )
    if (expected !== undefined) assert.equal(await renamed, expected)
    else await assert.rejects(renamed, /is the default branch, which cannot be deleted unless/)
  }
  await using mirror = await temporaryFolder()
  await git(mirror.path, ['clone', '--quiet', '--mirror', admin.remote('renamed-0'), '.'])
  await git(mirror.path, ['branch', '--move', 'main', 'trunk'])
  await git(mirror.path, ['push', '--quiet', '--mirror', admin.remote('renamed-0')])
  const { body: site } = await admin.get('/repos/renamed-0')
  assert.equal(site.defaultBranch, 'trunk')
  const { body: pushes } = await admin.get('/repos/renamed-0/pushes')
  await admin.post(`/repos/renamed-0/pushes/${pushes[0].id}/undo`)
  assert.equal((await admin.get('/repos/renamed-0')).body.defaultBranch, 'main')
})

test('until the default branch is set, main, master or trunk takes its place', async () => {
  const push = async (name: string, branch: string) => {
    await project.git('push', '--quiet', admin.remote(name), `main:refs/heads/${branch}`)
    return (await admin.get(`/repos/${name}`)).body.defaultBranch
  }
  await admin.post('/repos', { name: 'annex' })
  const seen = [await push('annex', 'synced/main'), await push('annex', 'other')]
  seen.push(await push('annex', 'trunk'), await push('annex', 'main'))
  assert.deepEqual(seen, ['synced/main', 'synced/main', 'trunk', 'trunk'])
  await admin.post('/repos', { name: 'chosen' })
  assert.equal(await push('chosen', 'next'), 'next')
  await admin.patch('/repos/chosen', { defaultBranch: 'next' })
  assert.equal(await push('chosen', 'main'), 'next')
  await admin.post('/repos', { name: 'created', defaultBranch: 'develop' })
  assert.deepEqual(
    [await push('created', 'develop'), await push('created', 'main')],
    ['develop', 'develop'],
  )
})

test('a push of another object format is rejected with a message', async () => {
  await using folder = await temporaryFolder()
  const other = objectFormat === 'sha1' ? 'sha256' : 'sha1'
  await git(folder.path, ['init', '--quiet', `--object-format=${other}`])
  await git(folder.path, ['commit', '--quiet', '--allow-empty', '-m', 'x'])
  await assert.rejects(
    git(folder.path, ['push', site, 'HEAD:refs/heads/sha256']),
    /does not support this repository's hash algorithm|mismatched algorithms/,
  )
})

test('objects that would harm a checkout are rejected, faults of old tools are accepted', async () => {
  const blob = await project.git('hash-object', '-w', 'a.txt')
  const evil = await treeOf(`100644 .git\0`, blob)
  const dotdot = await treeOf(`100644 ..\0`, blob)
  for (const tree of [evil, dotdot]) {
    const commit = await project.git('commit-tree', '-m', 'evil', tree)
    await assert.rejects(
      project.git('push', site, `${commit}:refs/heads/evil`),
      /hasDot|remote unpack failed/,
    )
  }
  const old = `tree ${await project.git('rev-parse', 'HEAD^{tree}')}\nauthor A<a@b> 1 +0000\ncommitter A <a@b> 1 +51800\n\nold\n`
  const commit = await writeObject('commit', old)
  await project.git('push', '--quiet', site, `${commit}:refs/heads/old`)
  assert.doesNotMatch(await project.git('ls-remote', site), /evil/)
})

test('only the smart protocol is served', async () => {
  const headers = { authorization: `Bearer ${admin.token}` }
  const statusOf = async (path: string, init = {}) =>
    (await fetch(`${service.url}/repos/${path}`, { headers, ...init })).status
  for (const path of [
    ...['site.git/HEAD', 'site.git/config', 'site.git/objects/info/packs', 'site.git/info/refs/'],
    ...['site.git/', 'site/info/refs?service=git-upload-pack', 'site.git/packed-refs'],
    ...['..%2F..%2Fsvc.db/info/refs?service=git-upload-pack', 'site.git%2F..%2F..%2Fx/HEAD'],
  ]) {
    assert.equal(await statusOf(path), 404, path)
  }
  // The address that Git clones describes its repository, and shows no file of it.
  const { body: described } = await admin.get('/repos/site')
  assert.deepEqual((await admin.get('/repos/site.git')).body, described)
  for (const service of ['', '?service=git-upload-archive', '?service=upload-pack', '?x=1']) {
    assert.equal(await statusOf(`site.git/info/refs${service}`), 400, service)
  }
  const asForm = {
    method: 'POST',
    body: 'x',
    headers: { ...headers, 'content-type': 'text/plain' },
  }
  assert.equal(await statusOf('site.git/git-upload-pack', asForm), 415)
})

test('an empty repository can be cloned, and pushed to from the clone', async () => {
  await using folder = await temporaryFolder()
  await admin.post('/repos', { name: 'empty' })
  await git(folder.path, ['clone', '--quiet', admin.remote('empty'), 'copy'])
  const copy = join(folder.path, 'copy')
  assert.equal((await git(copy, ['symbolic-ref', 'HEAD'])).stdout, 'refs/heads/main')
  await git(copy, ['commit', '--quiet', '--allow-empty', '-m', 'first'])
  await git(copy, ['push', '--quiet'])
  const { body } = await admin.get('/repos/empty')
  assert.equal(body.empty, false)
  assert.ok(body.sizeBytes > 0)
})

async function treeOf(entry: string, blob: string): Promise<string> {
  return writeObject('tree', Buffer.concat([Buffer.from(entry), Buffer.from(blob, 'hex')]))
}

async function writeObject(type: string, content: string | Buffer): Promise<string> {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'object')
  await writeFile(file, content)
  return await project.git('hash-object', '-t', type, '-w', '--literally', file)
}
