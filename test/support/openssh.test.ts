import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { temporaryFolder } from './git.ts'
import { newSshKey, sshClients, sshProgram } from './openssh.ts'
import { without } from './programs.ts'

const execute = promisify(execFile)

test('the additional OpenSSH is version 10', {
  skip: without('openssh-10'),
}, async () => {
  const { stderr } = await execute(sshProgram('openssh-10', 'ssh'), ['-V'])
  assert.match(stderr, /^OpenSSH_10\./)
})

for (const client of sshClients) {
  test(`${client} reads our key`, {
    skip: without('openssh') || without(client),
  }, async () => {
    await using folder = await temporaryFolder()
    const { path, publicKey } = await newSshKey(join(folder.path, 'key'))
    const { stdout } = await execute(sshProgram(client, 'ssh-keygen'), ['-y', '-f', path])
    assert.equal(stdout.trim(), publicKey)
  })
}
