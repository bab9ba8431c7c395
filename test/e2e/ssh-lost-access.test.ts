import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { text } from 'node:stream/consumers'
import { after, before, describe, test } from 'node:test'
import { createProject } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { packOf, toPushBody } from '../support/raw-git.ts'
import { type Client, type Service, startServiceWithSsh } from '../support/service.ts'
import { createSshUser, type SshUser } from '../support/ssh-user.ts'

let service: Service
let owner: Client

const losses = {
  'the key is deleted': async (user: SshUser) => {
    await service.admin.delete(`/keys/${user.keyId}`)
  },
  'the key expires': async (user: SshUser) => {
    const path = join(service.dataDir, 'svc.db')
    const database = new DatabaseSync(path, { timeout: 60_000 })
    database.prepare('update ssh_keys set expires_at = ? where id = ?').run(Date.now(), user.keyId)
    database.close()
  },
  'the collaborator is removed': async (user: SshUser) => {
    await owner.delete(`/repos/site/collaborators/${user.username}`)
  },
  'the repository is deleted': async () => {
    await service.admin.delete('/repos/site')
  },
}

const requests = {
  'a fetch in version=0': { protocol: 'version=0', command: 'git-upload-pack' },
  'a fetch in version=2': { protocol: 'version=2', command: 'git-upload-pack' },
  'a push': { protocol: '', command: 'git-receive-pack' },
}

/** All of a push but the end of its pack. */
async function openPush(project: string): Promise<Buffer> {
  const body = toPushBody(await packOf(project), { branches: ['new'] })
  return body.subarray(0, -20)
}

describe('a command of Git over SSH ends when its caller loses access', {
  skip: without('openssh'),
}, () => {
  before(async () => {
    // Nothing else would end it before the test has long failed.
    service = await startServiceWithSsh({ env: { SVC_GIT_STALL_SECONDS: '3600' } })
    owner = await service.client({
      username: 'owner',
      permissions: ['repo:read', 'repo:write', 'collaborator:write'],
    })
  })

  after(() => service[Symbol.asyncDispose]())

  let members = 0
  for (const [loss, lose] of Object.entries(losses)) {
    for (const [name, { protocol, command }] of Object.entries(requests)) {
      test(`${name}: ${loss}`, async () => {
        members += 1
        const username = `member-${members}`
        await using project = await createProject()
        await owner.post('/repos', { name: 'site' })
        await project.git('push', '--quiet', '--force', owner.remote('site'), 'HEAD:main')
        await owner.post('/repos/site/collaborators', { username })
        await using user = await createSshUser(service, await service.client({ username }))
        const [program = '', ...options] = user.command.split(' ')
        const target = [
          '-o',
          'SendEnv=GIT_PROTOCOL',
          '-p',
          String(service.sshPort),
          'svc@127.0.0.1',
        ]
        // A client that fetches says nothing after the refs.
        const ssh = spawn(program, [...options, ...target, `${command} '/site.git'`], {
          env: { ...process.env, GIT_PROTOCOL: protocol },
        })
        const ended = once(ssh, 'close')
        const stderr = text(ssh.stderr)
        await once(ssh.stdout, 'data')
        if (name === 'a push') ssh.stdin.write(await openPush(project.path))
        await lose(user)
        const [exitCode] = await ended
        assert.equal(exitCode, 128)
        assert.match(
          await stderr,
          /^(svc: This does not .*\n)?svc: .*(deleted or has expired, or its user is disabled|not yours to see)\.\n$/,
        )
      })
    }
  }
})
