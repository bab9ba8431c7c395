import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, git, temporaryFolder } from '../support/git.ts'
import { type SshClient, sshClients } from '../support/openssh.ts'
import { without } from '../support/programs.ts'
import { type Client, type Service, startServiceWithSsh } from '../support/service.ts'
import { sshKeygen } from '../support/ssh-keys.ts'
import { createSshUser, type SshUser } from '../support/ssh-user.ts'

const exchanges: Record<SshClient, string> = {
  openssh: 'curve25519-sha256',
  'openssh-10': 'mlkem768x25519-sha256',
}
const offered = {
  'KEX algorithms': [
    ...['mlkem768x25519-sha256', 'curve25519-sha256', 'curve25519-sha256@libssh.org'],
    ...['ecdh-sha2-nistp256', 'ecdh-sha2-nistp384', 'ecdh-sha2-nistp521'],
    'kex-strict-s-v00@openssh.com',
  ],
  'host key algorithms': ['ssh-ed25519'],
  ciphers: [
    ...['aes128-gcm@openssh.com', 'aes256-gcm@openssh.com', 'chacha20-poly1305@openssh.com'],
    ...['aes128-ctr', 'aes192-ctr', 'aes256-ctr'],
  ],
  MACs: [
    ...['hmac-sha2-256-etm@openssh.com', 'hmac-sha2-512-etm@openssh.com'],
    ...['hmac-sha2-256', 'hmac-sha2-512'],
  ],
  compression: ['none'],
}
const signatures = [
  ...['ssh-ed25519', 'sk-ssh-ed25519@openssh.com'],
  ...['ecdsa-sha2-nistp256', 'ecdsa-sha2-nistp384', 'ecdsa-sha2-nistp521'],
  ...['sk-ecdsa-sha2-nistp256@openssh.com', 'rsa-sha2-512', 'rsa-sha2-256'],
]
/** The ciphers that authenticate by themselves, so that no MAC is used. */
const authenticated = /-gcm@|poly1305@/
const mib = 1024 * 1024

let service: Service
let ada: Client

before(async () => {
  service = await startServiceWithSsh()
  ada = await service.client({ username: 'ada', permissions: ['repo:read', 'repo:write'] })
})

after(() => service[Symbol.asyncDispose]())

for (const client of sshClients) {
  describe(`with ${client}`, {
    ...(client === 'openssh-10' && exhaustive),
    skip: without('openssh') || without(client),
  }, () => {
    let user: SshUser

    before(async () => {
      user = await createSshUser(service, ada, { client })
    })

    after(() => user[Symbol.asyncDispose]())

    test(`keys are exchanged by ${exchanges[client]}, strictly, without warnings`, async () => {
      const result = await user.ssh('whoami', '-vvv')
      assert.match(result.stderr, new RegExp(`debug1: kex: algorithm: ${exchanges[client]}\r?\n`))
      assert.match(result.stderr, /debug3: kex_choose_conf: will use strict KEX ordering/)
      const quiet = await user.ssh('whoami')
      assert.deepEqual([quiet.exitCode, quiet.stderr], [0, ''])
      assert.match(quiet.stdout, /^Username: ada\n/)
    })

    test('only modern algorithms are offered', async () => {
      const { stderr } = await user.ssh('whoami', '-vv')
      const [, proposal = ''] = /peer server KEXINIT proposal(.*?)debug1:/s.exec(stderr) ?? []
      const lists = (name: string) =>
        [
          ...proposal.matchAll(new RegExp(`debug2: ${name}(?: ctos| stoc)?: ([^\\r\\n]*)`, 'g')),
        ].map(([, names = '']) => names.split(','))
      for (const [name, names] of Object.entries(offered)) {
        const found = lists(name)
        assert.ok(found.length > 0, name)
        for (const list of found) assert.deepEqual(list, names, name)
      }
      assert.match(stderr, new RegExp(`server-sig-algs=<${signatures.join(',')}>`))
    })

    // The older client lacks the first.
    for (const exchange of offered['KEX algorithms'].slice(client === 'openssh' ? 1 : 0, -1)) {
      test(`${exchange} works as the only one of the client`, async () => {
        const ended = await user.ssh('whoami', '-o', `KexAlgorithms=${exchange}`)
        assert.deepEqual([ended.exitCode, ended.stderr], [0, ''])
      })
    }

    for (const cipher of offered.ciphers) {
      test(`${cipher} works with each of its MACs`, async () => {
        for (const mac of authenticated.test(cipher) ? ['hmac-sha2-256'] : offered.MACs) {
          const ended = await user.ssh('whoami', '-c', cipher, '-m', mac)
          assert.deepEqual([ended.exitCode, ended.stderr], [0, ''], mac)
        }
      })
    }

    for (const [what, option] of [
      ['SHA-1 in the exchange', 'KexAlgorithms=diffie-hellman-group14-sha1'],
      ['a short group', 'KexAlgorithms=diffie-hellman-group1-sha1'],
      ['CBC', 'Ciphers=aes128-cbc'],
      ['SHA-1 in the code', 'MACs=hmac-sha1,hmac-sha1-etm@openssh.com'],
      ['an RSA host key', 'HostKeyAlgorithms=rsa-sha2-512,ssh-rsa'],
    ] as const) {
      test(`${what} is not accepted`, async () => {
        const ctr = option.startsWith('MACs') ? ['-c', 'aes128-ctr'] : []
        const ended = await user.ssh('whoami', '-o', option, ...ctr)
        assert.equal(ended.exitCode, 255)
        assert.match(ended.stderr, /Unable to negotiate .*: no matching/)
      })
    }

    test('rekeying works during transfers in both directions', exhaustive, async () => {
      await using project = await createProject()
      await using folder = await temporaryFolder()
      await ada.post('/repos', { name: `large-${client}` })
      const remote = user.remote(`large-${client}`)
      await project.commit('noise.bin', randomBytes(14 * mib))
      const often = '-v -o RekeyLimit=512K'
      const pushed = await user.gitWith(often, project.path, 'push', remote, 'HEAD:main')
      assert.equal(pushed.exitCode, 0, pushed.stderr)
      const copy = join(folder.path, 'copy')
      const cloned = await user.gitWith(often, folder.path, 'clone', '--progress', remote, copy)
      assert.equal(cloned.exitCode, 0, cloned.stderr)
      for (const { stderr } of [pushed, cloned]) {
        const times = stderr.match(new RegExp(`kex: algorithm: ${exchanges[client]}`, 'g'))
        // How often depends on how much comes at a time.
        assert.ok((times?.length ?? 0) > 10, `${times?.length} exchanges`)
      }
      const head = await project.git('rev-parse', 'HEAD')
      assert.equal((await git(copy, ['rev-parse', 'HEAD'])).stdout, head)
      await git(copy, ['fsck', '--full'])
    })
  })
}

test('the host key survives a restart, and is that of its file', {
  skip: without('openssh'),
}, async () => {
  await using folder = await temporaryFolder()
  const fingerprints: string[] = []
  for (let start = 0; start < 2; start++) {
    await using again = await startServiceWithSsh({ dataDir: folder.path })
    await using user = await createSshUser(again)
    const { stderr } = await user.ssh('whoami', '-v')
    fingerprints.push(/Server host key: ssh-ed25519 (SHA256:\S+)/.exec(stderr)?.[1] ?? '')
    assert.equal(await again.end('SIGTERM'), 0)
  }
  const listed = await sshKeygen('-l', '-f', join(folder.path, 'ssh_host_ed25519_key.pub'))
  const fingerprint = listed.split(' ')[1] ?? ''
  assert.deepEqual(fingerprints, [fingerprint, fingerprint])
  const derived = await sshKeygen('-l', '-f', join(folder.path, 'ssh_host_ed25519_key'))
  assert.equal(derived.split(' ')[1], fingerprint)
})
