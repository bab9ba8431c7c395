// Tags: exhaustive
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { createProject, git, temporaryFolder } from '../support/git.ts'
import { programs, without } from '../support/programs.ts'
import { type Client, type Service, startServiceWithSsh } from '../support/service.ts'
import { createSshUser, run, type SshUser } from '../support/ssh-user.ts'

// Debian 12's libssh2 (1.10) knows AES-CTR alone, and no encrypt-then-MAC.
let service: Service
let client: Client
let ada: SshUser

const skip = without('openssh') || without('pygit2') || without('curl')

describe('clients on libssh2', { skip }, () => {
  before(async () => {
    service = await startServiceWithSsh()
    client = await service.client({ username: 'ada' })
    ada = await createSshUser(service, client)
    await client.post('/repos', { name: 'site' })
  })

  after(async () => {
    await ada[Symbol.asyncDispose]()
    await service[Symbol.asyncDispose]()
  })

  test('libgit2 pushes, clones and fetches', async () => {
    await using project = await createProject()
    await using folder = await temporaryFolder()
    await project.commit('noise.txt', 'noise\n'.repeat(100_000))
    const copy = join(folder.path, 'copy')
    await libgit2(`
      source = pygit2.Repository(${JSON.stringify(project.path)})
      source.remotes.create("svc", url)
      source.remotes["svc"].push([source.head.name + ":refs/heads/main"], callbacks=callbacks)
      pygit2.clone_repository(url, ${JSON.stringify(copy)}, callbacks=callbacks)`)
    const head = await project.git('rev-parse', 'HEAD')
    assert.equal((await git(copy, ['rev-parse', 'HEAD'])).stdout, head)
    const next = await project.commit('next.txt', 'next')
    await ada.git(project.path, 'push', '--quiet', ada.remote('site'), 'HEAD:main')
    await libgit2(`
      pygit2.Repository(${JSON.stringify(copy)}).remotes["origin"].fetch(callbacks=callbacks)`)
    assert.equal((await git(copy, ['rev-parse', 'origin/main'])).stdout, next)
    await git(copy, ['fsck', '--strict'])
  })

  // There is no SFTP here, which a client learns only after keys and authentication.
  test('curl exchanges keys, authenticates and learns that there is no SFTP', async () => {
    const url = `sftp://svc@127.0.0.1:${service.sshPort}/`
    const keys = ['--key', ada.path, '--pubkey', `${ada.path}.pub`]
    const { stderr } = await run('curl', ['-v', '--insecure', ...keys, url])
    assert.match(stderr, /Authentication complete|Initialized SSH public key authentication/)
    assert.match(stderr, /Failure initializing sftp session/)
  })
})

async function libgit2(lines: string): Promise<void> {
  const program = `
import pygit2
class Callbacks(pygit2.RemoteCallbacks):
    def certificate_check(self, certificate, valid, host):
        return True
callbacks = Callbacks(credentials=pygit2.Keypair("svc", ${JSON.stringify(`${ada.path}.pub`)}, ${JSON.stringify(ada.path)}, ""))
url = ${JSON.stringify(ada.remote('site'))}
${lines.replace(/^ +/gm, '')}`
  const { exitCode, stderr } = await run(programs.pygit2.find() ?? '', ['-c', program])
  assert.deepEqual([exitCode, stderr], [0, ''])
}
