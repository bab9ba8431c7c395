// Tags: each-store

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, beforeEach, describe, test } from 'node:test'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, git, type Project, temporaryFolder } from '../support/git.ts'
import { importHistory } from '../support/history.ts'
import { without } from '../support/programs.ts'
import { type Client, type Service, startServiceWithSsh } from '../support/service.ts'
import { createSshUser, type SshUser } from '../support/ssh-user.ts'

let service: Service
let client: Client
let ada: SshUser
let project: Project
let remote: string

describe('Git over SSH', { skip: without('openssh') }, () => {
  before(async () => {
    service = await startServiceWithSsh()
    client = await service.client({
      username: 'ada',
      permissions: ['repo:read', 'repo:write', 'repo:delete'],
    })
    ada = await createSshUser(service, client)
    remote = ada.remote('site')
  })

  after(async () => {
    await ada[Symbol.asyncDispose]()
    await service[Symbol.asyncDispose]()
  })

  beforeEach(async () => {
    project = await createProject()
    await client.delete('/repos/site')
    await client.post('/repos', { name: 'site' })
  })

  for (const version of ['0', '1', '2']) {
    test(
      `push, ls-remote, clone and fetch work in version ${version} of the protocol`,
      exhaustive,
      async () => {
        await using work = project
        await using folder = await temporaryFolder()
        const asked = ['-c', `protocol.version=${version}`]
        const run = async (cwd: string, ...args: string[]) =>
          (await ada.git(cwd, ...asked, ...args)).stdout
        assert.equal(await run(work.path, 'ls-remote', remote), '')
        await run(work.path, 'push', remote, 'HEAD:main')
        const first = await work.git('rev-parse', 'HEAD')
        assert.equal(await run(work.path, 'ls-remote', remote, 'main'), `${first}\trefs/heads/main`)
        const copy = join(folder.path, 'copy')
        await run(folder.path, 'clone', '--quiet', remote, copy)
        const second = await work.commit('second.txt')
        await work.git('tag', 'light')
        await work.git('tag', '-m', 'heavy', 'heavy')
        await run(work.path, 'push', '--tags', remote, 'HEAD:main')
        await run(copy, 'fetch', '--tags')
        assert.equal((await git(copy, ['rev-parse', 'origin/main'])).stdout, second)
        assert.equal(
          (await git(copy, ['rev-parse', 'heavy^{commit}', 'light'])).stdout,
          `${second}\n${second}`,
        )
        await git(copy, ['fsck', '--strict'])
      },
    )
  }

  test('the requested protocol version is used', async () => {
    await using work = project
    await ada.git(work.path, 'push', remote, 'HEAD:main')
    for (const [version, begins] of [
      ['0', /< [0-9a-f]{40,64} HEAD\\0/],
      ['1', /< version 1\n/],
      ['2', /< version 2\n/],
    ] as const) {
      const env = { GIT_SSH_COMMAND: ada.command, GIT_TRACE_PACKET: '1' }
      const args = ['-c', `protocol.version=${version}`, 'ls-remote', remote]
      assert.match((await git(work.path, args, env)).stderr, begins)
    }
  })

  test('an invalid GIT_PROTOCOL is ignored', async () => {
    for (const value of ['version=3', 'version=2x', '$(id)', ':', 'x'.repeat(300), 'version=02']) {
      const words = ['-o', 'SendEnv=GIT_PROTOCOL', '-o', `SetEnv=GIT_PROTOCOL=${value}`]
      const { stdout } = await ada.ssh("git-upload-pack '/site.git'", ...words)
      // Newer versions of Git advertise capabilities without refs, too.
      assert.match(stdout, /^(?:[0-9a-f]{4}0{40,64} capabilities\^\{\}[^\n]*\n)?0000$/, value)
    }
    const sensible = ['-o', 'SetEnv=GIT_PROTOCOL=version=2']
    assert.match((await ada.ssh("git-upload-pack '/site.git'", ...sensible)).stdout, /version 2\n/)
  })

  test('pushes without changes, forced pushes and deletions succeed', async () => {
    await using work = project
    await work.commit('second.txt')
    await ada.git(work.path, 'push', remote, 'HEAD:main', 'HEAD:other')
    const again = await ada.tryGit(work.path, 'push', remote, 'HEAD:main')
    assert.deepEqual([again.exitCode, again.stderr], [0, 'Everything up-to-date\n'])
    const back = await ada.tryGit(work.path, 'push', remote, 'HEAD~:main')
    assert.match(back.stderr, /\[rejected\] .* \(non-fast-forward\)/)
    await ada.git(work.path, 'push', '--force', remote, 'HEAD~:main')
    await ada.git(work.path, 'push', remote, ':other')
    const first = await work.git('rev-parse', 'HEAD~')
    assert.equal(
      (await ada.git(work.path, 'ls-remote', remote)).stdout,
      `${first}\tHEAD\n${first}\trefs/heads/main`,
    )
  })

  test('an atomic push with options is all or nothing', async () => {
    await using work = project
    await client.put('/repos/site/protections/branches/kept')
    await ada.git(work.path, 'push', '--atomic', remote, 'HEAD:one', 'HEAD:two')
    const refused = await ada.tryGit(
      work.path,
      'push',
      '--atomic',
      remote,
      'HEAD:three',
      'HEAD:refs/svc/x',
    )
    assert.equal(refused.exitCode, 1)
    assert.match(refused.stderr, /refs\/svc\/x/)
    const { stdout } = await ada.git(work.path, 'ls-remote', remote)
    assert.deepEqual(stdout.match(/refs\/\S+/g), ['refs/heads/one', 'refs/heads/two'])
  })

  test('shallow clones can be deepened, and partial ones completed', async () => {
    await using work = project
    await using folder = await temporaryFolder()
    await importHistoryOn(work, 50)
    await ada.git(work.path, 'push', remote, 'main')
    const shallow = join(folder.path, 'shallow')
    const count = async () => (await git(shallow, ['rev-list', '--count', 'HEAD'])).stdout
    await ada.git(folder.path, 'clone', '--quiet', '--depth=3', remote, shallow)
    assert.equal(await count(), '3')
    await ada.git(shallow, 'fetch', '--deepen=4')
    assert.equal(await count(), '7')
    await ada.git(shallow, 'fetch', '--unshallow')
    assert.equal(await count(), await work.git('rev-list', '--count', 'main'))
    const partial = join(folder.path, 'partial')
    await ada.git(
      folder.path,
      'clone',
      '--quiet',
      '--no-checkout',
      '--filter=blob:none',
      remote,
      partial,
    )
    const missing = await git(partial, ['rev-list', '--objects', '--all', '--missing=print'])
    assert.match(missing.stdout, /^\?/m)
    const { stdout } = await ada.git(partial, 'show', 'HEAD:folder-7/file-7.txt')
    assert.match(stdout, /^line 7\n/)
  })

  test('a fetch negotiates a long history of which half is new', exhaustive, async () => {
    await using work = project
    await using folder = await temporaryFolder()
    const copy = join(folder.path, 'copy')
    await importHistoryOn(work, 2000)
    await ada.git(work.path, 'push', remote, 'main~1000:refs/heads/main')
    await ada.git(folder.path, 'clone', '--quiet', remote, copy)
    // Commits of the copy alone, so that there is something to negotiate about.
    await git(copy, ['checkout', '--quiet', '-b', 'own'])
    for (let index = 0; index < 40; index++) {
      await git(copy, ['commit', '--quiet', '--allow-empty', '-m', `own ${index}`])
    }
    await ada.git(work.path, 'push', remote, 'main')
    for (const version of ['0', '2']) {
      const args = ['-c', `protocol.version=${version}`, 'fetch', 'origin', `main:new-${version}`]
      await ada.git(copy, ...args)
      const main = await work.git('rev-parse', 'main')
      assert.equal((await git(copy, ['rev-parse', `new-${version}`])).stdout, main)
    }
    await git(copy, ['fsck', '--connectivity-only'])
  })

  test('git archive --remote returns the files of a branch', async () => {
    await using work = project
    await using folder = await temporaryFolder()
    await ada.git(work.path, 'push', remote, 'HEAD:main')
    const [there, here] = [join(folder.path, 'there.tar'), join(folder.path, 'here.tar')]
    const what = ['HEAD', 'readme.txt']
    await ada.git(work.path, 'archive', `--remote=${remote}`, `--output=${there}`, ...what)
    await work.git('archive', `--output=${here}`, ...what)
    assert.deepEqual(await readFile(there), await readFile(here))
    const wrong = await ada.tryGit(work.path, 'archive', `--remote=${remote}`, 'nowhere')
    assert.equal(wrong.exitCode, 1)
    assert.match(wrong.stderr, /no such ref: nowhere/)
    // Git would print the path on the server.
    for (const path of [
      '/etc',
      '../..',
      ':(top)/etc',
      'src/../../etc',
      '::..',
      '::/etc',
      ':!:..',
    ]) {
      const outside = await ada.tryGit(work.path, 'archive', `--remote=${remote}`, 'main', path)
      assert.ok(
        outside.stderr.startsWith(`svc: "${path}" is outside of the repository.`),
        outside.stderr,
      )
      assert.notEqual(outside.exitCode, 0)
    }
  })

  test('git archive --remote accepts options that read only the repository', async () => {
    await using work = project
    await using folder = await temporaryFolder()
    await ada.git(work.path, 'push', remote, 'HEAD:main')
    const [there, here] = [join(folder.path, 'there'), join(folder.path, 'here')]
    const prefix = ['--prefix=site-1.0/', '--prefix', 'other/']
    for (const options of [
      ['--format=zip', '-9', ...prefix],
      ['--format', 'tar', '-v', '--end-of-options'],
      ['--format=tar.gz', '-0'],
    ]) {
      const what = ['archive', ...options, 'main']
      const [command = '', ...rest] = what
      await ada.git(work.path, command, `--remote=${remote}`, `--output=${there}`, ...rest)
      await work.git(command, `--output=${here}`, ...rest)
      assert.deepEqual(await readFile(there), await readFile(here), options.join(' '))
    }
    const list = await ada.git(work.path, 'archive', `--remote=${remote}`, '--list')
    assert.match(list.stdout, /^tar$/m)
  })

  test('git archive --remote does not reveal whether a file of the server exists', async () => {
    await using work = project
    await ada.git(work.path, 'push', remote, 'HEAD:main')
    const complaints = ['/etc/passwd', '/nonexistent'].map(async (path) => {
      const option = `--add-file=${path}`
      const refused = await ada.tryGit(work.path, 'archive', `--remote=${remote}`, option, 'main')
      assert.notEqual(refused.exitCode, 0)
      return refused.stderr.replace(path, '…').split('\n')[0]
    })
    const [one, other] = await Promise.all(complaints)
    assert.match(
      one ?? '',
      /^svc: git archive does not support the option "--add-file=…" on this server; supp/,
    )
    assert.equal(one, other)
  })

  test('a protected branch is rejected with the same message as over HTTP', async () => {
    await using work = project
    await client.put('/repos/site/protections/branches/main')
    await service.admin.post('/repos/site/collaborators', { username: 'grace' })
    await using grace = await createSshUser(service, await service.client({ username: 'grace' }))
    const refused = await grace.tryGit(work.path, 'push', remote, 'HEAD:main')
    const http = await service.client({ username: 'grace' })
    const overHttp = await work
      .git('push', http.remote('site'), 'HEAD:main')
      .catch((error) => error)
    const remoteLines = (text: string) => text.match(/^remote: .*$/gm)
    assert.match(refused.stderr, /remote: .*The branch "main" is protected by the rule "main"/)
    assert.deepEqual(remoteLines(refused.stderr), remoteLines(overHttp.stderr))
  })
})

async function importHistoryOn(work: Project, commits: number): Promise<void> {
  await work.git('checkout', '--quiet', '--orphan', 'unused')
  await work.git('update-ref', '-d', 'refs/heads/main')
  await importHistory(work.path, { commits })
}
