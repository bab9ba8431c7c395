import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { readEncryptionKeys } from './encryption-keys.ts'
import { readSettings, SettingsError } from './settings.ts'

const dataDir = await mkdtemp(join(tmpdir(), 'svc-test-'))
const file = join(dataDir, 'keys')
const [one, other] = [randomBytes(32), randomBytes(32)]
const [hex, base64] = [one.toString('hex'), other.toString('base64')]

after(() => rm(dataDir, { recursive: true }))

async function keysOf(environment: Record<string, string>) {
  const settings = readSettings({ SVC_DATA_DIR: dataDir, ...environment })
  const { keys, source } = await readEncryptionKeys(settings)
  return { keys: keys.reveal(), source }
}

test('keys are read in base64 and hex, one or several', async () => {
  const texts = [`${hex},${base64}`, `${hex.toUpperCase()}, ${base64}`, `${hex}\n${base64}\n`]
  for (const text of [...texts, `${hex},${base64.replace('=', '')}`]) {
    const given = await keysOf({ SVC_ENCRYPTION_KEY: text })
    assert.deepEqual(given, { keys: [one, other], source: 'SVC_ENCRYPTION_KEY' })
    await writeFile(file, text)
    const read = await keysOf({ SVC_ENCRYPTION_KEY_FILE: file })
    assert.deepEqual(read, { keys: [one, other], source: 'SVC_ENCRYPTION_KEY_FILE' })
  }
})

test('without a setting the key is the file in the data directory, if there is one', async () => {
  const own = join(dataDir, 'encryption.key')
  assert.deepEqual(await keysOf({}), { keys: [], source: own })
  await writeFile(own, `${base64}\r\n${hex}`)
  assert.deepEqual(await keysOf({}), { keys: [other, one], source: own })
  await writeFile(own, base64.slice(1))
  await assert.rejects(keysOf({}), /encryption\.key holds no valid key: 32 bytes in base64 or hex/)
  await rm(own)
})

test('an invalid key is rejected by the name of its variable, and never printed', async () => {
  const long = Array(17).fill(hex).join()
  const bad = [hex.slice(1), `${hex}0`, base64.slice(2), `${hex},x`, ',', `${hex}-${hex}`, long]
  for (const text of bad) {
    const mentions = (variable: string) => (error: unknown) => {
      assert.ok(error instanceof SettingsError)
      assert.match(error.message, new RegExp(`^${variable}: .* 32 bytes in base64 or hex.*\\.$`))
      assert.ok(!error.message.includes(text.slice(0, 20)) || text.length < 20)
      return true
    }
    await assert.rejects(keysOf({ SVC_ENCRYPTION_KEY: text }), mentions('SVC_ENCRYPTION_KEY'))
    await writeFile(file, text)
    const named = keysOf({ SVC_ENCRYPTION_KEY_FILE: file })
    await assert.rejects(named, mentions('SVC_ENCRYPTION_KEY_FILE'))
  }
})

test('a key in place of a path is not printed, and neither is a missing path', async () => {
  for (const text of [hex, base64, `${hex},${base64}`, base64.slice(2)]) {
    await assert.rejects(keysOf({ SVC_ENCRYPTION_KEY_FILE: text }), (error) => {
      assert.ok(error instanceof SettingsError)
      assert.ok(!error.message.includes(text.slice(0, 10)), error.message)
      return true
    })
  }
})

test('pipes, folders and endless files are not key files, and do not block', async () => {
  const pipe = join(dataDir, 'pipe')
  await promisify(execFile)('mkfifo', [pipe])
  for (const path of [pipe, dataDir, '/dev/zero', '/dev/null']) {
    await assert.rejects(keysOf({ SVC_ENCRYPTION_KEY_FILE: path }), SettingsError, path)
  }
})

test('only one of the two variables may be set', async () => {
  const both = { SVC_ENCRYPTION_KEY: hex, SVC_ENCRYPTION_KEY_FILE: file }
  await assert.rejects(
    keysOf(both),
    /^SettingsError: SVC_ENCRYPTION_KEY, SVC_ENCRYPTION_KEY_FILE: both are set/,
  )
})
