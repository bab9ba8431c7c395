import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { without } from '../../test/support/programs.ts'
import { generateKey, sshKeygen } from '../../test/support/ssh-keys.ts'
import { openHostKey } from './host-key.ts'

let folder: string
const pathOf = () => join(folder, 'ssh_host_ed25519_key')
const open = (file?: string) => openHostKey({ dataDir: folder, file, onCreated() {} })

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc-test-'))
})

afterEach(() => rmSync(folder, { recursive: true }))

test('a new key can be read back, only by its owner', async () => {
  const made = await open()
  const again = await open()
  assert.deepEqual(again.getPublicSSH(), made.getPublicSSH())
  assert.deepEqual(again.sign(Buffer.from('x')), made.sign(Buffer.from('x')))
  assert.equal(statSync(pathOf()).mode & 0o777, 0o600)
})

test('keys with any bytes can be created and read', async () => {
  // A public key that begins with a zero comes once in 256 times.
  for (let round = 0; round < 600; round++) {
    const made = await open()
    assert.equal(made.getPublicSSH().length, 51)
    rmSync(pathOf())
  }
})

test('OpenSSH reads our keys', { skip: without('openssh') }, async () => {
  const key = await open()
  const line = `ssh-ed25519 ${key.getPublicSSH().toString('base64')} svc`
  assert.equal((await sshKeygen('-y', '-f', pathOf())).trim(), line)
  assert.equal(readFileSync(`${pathOf()}.pub`, 'utf8').trim(), line)
})

test('keys of OpenSSH are read', { skip: without('openssh') }, async () => {
  const line = await generateKey(pathOf(), '-t', 'ed25519')
  const key = await open()
  const [, blob] = line.split(' ')
  assert.equal(key.getPublicSSH().toString('base64'), blob)
})

test('an invalid key file is reported and kept', {
  skip: without('openssh'),
}, async () => {
  const make: (() => unknown)[] = [
    () => writeFileSync(pathOf(), ''),
    () => writeFileSync(pathOf(), 'nonsense'),
    () => generateKey(pathOf(), '-t', 'ed25519', '-N', 'phrase'),
    () => generateKey(pathOf(), '-t', 'ecdsa'),
  ]
  for (const step of make) {
    await step()
    const before = readFileSync(pathOf())
    await assert.rejects(open(), /not a private ed25519 key without a passphrase; restore/)
    assert.deepEqual(readFileSync(pathOf()), before)
    rmSync(pathOf())
  }
})

test('a file that a setting names is read, and never created', async () => {
  const file = join(folder, 'elsewhere')
  await assert.rejects(open(file), /^Error: SVC_SSH_HOST_KEY_FILE: .*elsewhere does not exist\.$/)
  const made = await open()
  renameSync(pathOf(), file)
  assert.deepEqual((await open(file)).getPublicSSH(), made.getPublicSSH())
})
