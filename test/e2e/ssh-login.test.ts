import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, test } from 'node:test'
import { readSettings } from '#config/settings.ts'
import { until } from '../support/condition.ts'
import { temporaryFolder } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { type Client, type Service, startServiceWithSsh } from '../support/service.ts'
import { createSshUser, type Ended, run, type SshUser } from '../support/ssh-user.ts'

const kinds = {
  ed25519: 'ssh-ed25519',
  'ecdsa -b 256': 'ecdsa-sha2-nistp256',
  'ecdsa -b 384': 'ecdsa-sha2-nistp384',
  'ecdsa -b 521': 'ecdsa-sha2-nistp521',
  'rsa -b 2048': 'ssh-rsa',
  'rsa -b 3072': 'ssh-rsa',
}

let service: Service
let ada: Client
let grace: Client

describe('authentication with OpenSSH', { skip: without('openssh') }, () => {
  before(async () => {
    service = await startServiceWithSsh()
    ada = await service.client({ username: 'ada' })
    grace = await service.client({ username: 'grace' })
  })

  after(() => service[Symbol.asyncDispose]())

  for (const [kind, keyType] of Object.entries(kinds)) {
    test(`a key of type ${kind} authenticates its owner`, async () => {
      await using user = await createSshUser(service, ada, { kind })
      const { exitCode, stdout, stderr } = await user.ssh('whoami --json')
      assert.deepEqual([exitCode, stderr], [0, ''])
      const { keyId: id, fingerprint } = user
      assert.deepEqual(JSON.parse(stdout), {
        username: 'ada',
        permissions: ['repo:read', 'repo:write'],
        key: { id, name: 'laptop', keyType, fingerprint, expiresAt: user.expiresAt },
      })
    })
  }

  for (const [algorithm, isAccepted] of [
    ['rsa-sha2-256', true],
    ['rsa-sha2-512', true],
    ['ssh-rsa', false],
  ] as const) {
    test(`an RSA key ${isAccepted ? 'may' : 'may not'} sign as ${algorithm}`, async () => {
      await using user = await createSshUser(service, ada, { kind: 'rsa -b 2048' })
      const option = `PubkeyAcceptedAlgorithms=${algorithm}`
      const ended = await user.ssh('whoami', '-o', option)
      if (isAccepted) assert.match(ended.stdout, /^Username: ada\n/)
      else assertLockedOut(ended)
    })
  }

  test('an unregistered key is rejected, and so is a deleted one', async () => {
    await using stranger = await createSshUser(service)
    assertLockedOut(await stranger.ssh('whoami'))
    await using user = await createSshUser(service, ada)
    assert.equal((await user.ssh('whoami')).exitCode, 0)
    await ada.delete(`/keys/${user.keyId}`)
    assertLockedOut(await user.ssh('whoami'))
  })

  test("a client that first offers another user's key is the one that signs", async () => {
    await using other = await createSshUser(service, grace)
    await using user = await createSshUser(service, ada)
    // The public half alone: ssh asks whether it would do, and then cannot sign.
    await rm(other.path)
    const ended = await offerFirst(other, user)
    assert.match(ended.stderr, new RegExp(`Server accepts key: ${other.path} `))
    assert.match(ended.stdout, /^Username: ada\n/)
  })

  test('an SSH user other than svc is rejected with the right name', async () => {
    for (const user of ['root', 'git', 'ada', 'SVC', 'anonymous']) {
      await using visitor = await createSshUser(service, ada, { user })
      const ended = await visitor.ssh('whoami')
      assertLockedOut(ended)
      assert.match(ended.stderr, /^The SSH user of this service is svc: ssh:\/\/svc@…\r?\n/)
    }
  })

  test('passwords and questions are not offered', async () => {
    await using user = await createSshUser(service)
    const { stderr } = await user.ssh('whoami', '-v', '-o', 'BatchMode=no')
    assert.match(stderr, /Authentications that can continue: publickey\r?\n/)
    assert.doesNotMatch(stderr, /continue: .*(keyboard|password|hostbased)/)
  })

  test('a deleted key is rejected at the next command of an open connection', async () => {
    await using user = await createSshUser(service, ada)
    const path = join(user.folder, 'control')
    const [program = '', ...options] = user.command.split(' ')
    const target = ['-p', String(service.sshPort), 'svc@127.0.0.1']
    const master = spawn(program, [...options, '-N', '-M', '-S', path, ...target])
    const ended = once(master, 'exit')
    await until('the connection is shared', async () => {
      const checked = await run(program, ['-S', path, '-O', 'check', 'svc@127.0.0.1'])
      return checked.exitCode === 0
    })
    assert.match((await user.ssh('whoami', '-S', path)).stdout, /^Username: ada\n/)
    await ada.delete(`/keys/${user.keyId}`)
    assert.deepEqual(await user.ssh('whoami', '-S', path), {
      exitCode: 1,
      stdout: '',
      stderr: 'svc: Your SSH key was removed or has expired, or its user is disabled.\n',
    })
    const git = await user.ssh("git-upload-pack '/site.git'", '-S', path)
    assert.deepEqual([git.exitCode, git.stdout], [128, ''])
    master.kill()
    await ended
  })

  test('an expired key is rejected, and keys show their expiry', async () => {
    await using user = await createSshUser(service, ada)
    const date = new Date(user.expiresAt ?? 0).toISOString().slice(0, 10)
    assert.match((await user.ssh('whoami')).stdout, new RegExp(`^Expires: ${date} .* UTC$`, 'm'))
    const database = new DatabaseSync(join(service.dataDir, 'svc.db'), { timeout: 60_000 })
    database.prepare('update ssh_keys set expires_at = ? where id = ?').run(Date.now(), user.keyId)
    database.close()
    assertLockedOut(await user.ssh('whoami'))
  })

  test('SVC_SSH_ANONYMOUS_READ is true or false, and nothing else', async () => {
    const refusal = (value: string) =>
      `SVC_SSH_ANONYMOUS_READ: "${value}" is not accepted; it takes true or false.`
    for (const value of ['TRUE', '1', 'yes', 'on', ' true'])
      assert.throws(() => readSettings({ SVC_SSH_ANONYMOUS_READ: value }), {
        message: refusal(value),
      })
    await using folder = await temporaryFolder()
    const env = { SVC_SSH_ANONYMOUS_READ: '1' }
    await assert.rejects(startServiceWithSsh({ env, dataDir: folder.path }), ({ message }) =>
      message.split('\n').includes(`svc: ${refusal('1')}`),
    )
  })
})

function assertLockedOut({ exitCode, stdout, stderr }: Ended): void {
  assert.deepEqual([exitCode, stdout], [255, ''])
  assert.match(stderr, /: Permission denied \(publickey\)\.\r?\n/)
}

/** Has ssh offer a key of one person's, then one of another's. */
function offerFirst(first: SshUser, second: SshUser): Promise<Ended> {
  const [program = '', ...options] = second.command.split(' ')
  const target = ['-p', String(service.sshPort), 'svc@127.0.0.1']
  return run(program, ['-v', '-o', `IdentityFile=${first.path}`, ...options, ...target, 'whoami'])
}
