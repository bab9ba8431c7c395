// Tags: exhaustive
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { faultSteps } from '#base/fault-points.ts'
import { createLog } from '#base/log.ts'
import { Sensitive } from '#base/sensitive.ts'
import { openDatabase } from '#database/database.ts'
import { createSecrets } from '#secrets/secrets.ts'
import { createVault } from '#secrets/vault/vault.ts'
import { createBackupSite } from '../support/backup-site.ts'
import { assertRefused, mustRun } from '../support/backups.ts'
import { type Ran, runSvc } from '../support/command.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { temporaryFolder } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { publish } from '../support/publish.ts'
import { sampleOf } from '../support/rounds.ts'
import { launcher, startService } from '../support/service.ts'

const newKey = () => randomBytes(32).toString('base64')
const [old, next] = [newKey(), newKey()]
const ports = { SVC_PORT: '0', SVC_SSH_PORT: '0' }
const log = createLog({ level: 'silent', output: process.stderr })

/** A data directory that a server has set up with a key, with secrets in `site`. */
async function createSite(env: Record<string, string> = { SVC_ENCRYPTION_KEY: old }, count = 3) {
  const folder = await temporaryFolder()
  const dataDir = join(folder.path, 'data')
  await using service = await startService({ dataDir, env })
  const { body } = await service.admin.post('/repos', { name: 'site' })
  for (let at = 0; at < count; at++) {
    await service.admin.put(`/repos/site/secrets/S${at}`, { value: `value ${at}` })
  }
  await service.end('SIGTERM')
  const expected = Object.fromEntries(
    Array.from({ length: count }, (_, at) => [`S${at}`, `value ${at}`]),
  )
  return {
    dataDir,
    expected,
    /** The values, opened as a run has them opened. */
    open: (...keys: string[]) => openSecrets(dataDir, body.id, keys),
    run: (args: string[], more: Record<string, string> = {}) =>
      runSvc(args, { SVC_DATA_DIR: dataDir, ...more }),
    serve: (more: Record<string, string>) =>
      runSvc(['serve'], { SVC_DATA_DIR: dataDir, ...ports, ...more }),
    [Symbol.asyncDispose]: folder[Symbol.asyncDispose],
  }
}

async function openSecrets(dataDir: string, repositoryId: string, keys: string[], url?: string) {
  const db = await openDatabase({ dataDir, url, log })
  const ring = createVault(new Sensitive(keys.map((key) => Buffer.from(key, 'base64'))))
  const secrets = createSecrets({
    db,
    publish,
    clock: { now: () => Date.now() },
    vault: async () => ring,
  })
  return secrets.open(repositoryId).finally(() => db.destroy())
}

/** Asserts that a start was refused in one line, which repeats no key. */
function assertNoStart({ code, out, err }: Ran, sentence: RegExp, expectedCode: number): void {
  assert.match(err.split('\n').at(-2) ?? '', sentence)
  assert.deepEqual([code, out], [expectedCode, ''])
  for (const key of [old, next]) assert.ok(!err.includes(key.slice(0, 12)))
}

test('keys come from a variable, from a file, or from the data directory', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'keys')
  await writeFile(file, `${Buffer.from(old, 'base64').toString('hex')}\n`)
  for (const env of [{ SVC_ENCRYPTION_KEY: old }, { SVC_ENCRYPTION_KEY_FILE: file }]) {
    await using site = await createSite(env)
    assert.deepEqual(await site.open(old), site.expected)
  }
  await using own = await createSite({})
  const key = (await readFile(join(own.dataDir, 'encryption.key'), 'utf8')).trim()
  assert.deepEqual(await own.open(key), own.expected)
})

test('an invalid key, or two sources, stop the start with a line that names the variable', async () => {
  await using folder = await temporaryFolder()
  const start = (env: Record<string, string>) =>
    runSvc(['serve'], { SVC_DATA_DIR: join(folder.path, 'data'), ...ports, ...env })
  const half = { SVC_ENCRYPTION_KEY: old.slice(4) }
  assertNoStart(
    await start(half),
    /^svc: SVC_ENCRYPTION_KEY: its value is not accepted; it takes 32/,
    2,
  )
  const given = { SVC_ENCRYPTION_KEY_FILE: join(folder.path, 'nowhere') }
  assertNoStart(await start(given), /^svc: SVC_ENCRYPTION_KEY_FILE: the file .* no such file/, 2)
  const both = { SVC_ENCRYPTION_KEY: old, ...given }
  assertNoStart(await start(both), /^svc: SVC_ENCRYPTION_KEY, SVC_ENCRYPTION_KEY_FILE: both are/, 2)
})

test('a server with another key does not start, and names the missing one with advice', async () => {
  await using site = await createSite()
  const [oldId] = createVault(new Sensitive([Buffer.from(old, 'base64')])).keyIds
  const ways = `configured: ${oldId}\\. Add the old key after the new one, .*--discard-unreadable\\.`
  const line = new RegExp(
    `^svc: SVC_ENCRYPTION_KEY: 3 secrets are sealed with a key that is not ${ways}$`,
  )
  assertNoStart(await site.serve({ SVC_ENCRYPTION_KEY: next }), line, 2)
  // The data directory has had a key of its own all along.
  assertNoStart(await site.serve({}), /encryption\.key: 3 secrets are sealed with a key/, 2)
  assertRefused(
    { ...(await site.run(['secrets', 'set', 'site', 'X'])), code: 1 },
    /3 secrets are sealed/,
  )
  await using _both = await startService({
    dataDir: site.dataDir,
    env: { SVC_ENCRYPTION_KEY: `${next},${old}` },
  })
})

test('a missing key that is in the data directory is named', async () => {
  await using site = await createSite({})
  const refused = await site.serve({ SVC_ENCRYPTION_KEY: next })
  assertNoStart(refused, /\([0-9a-f]{16} is the key in \S+encryption\.key\.\)$/, 2)
})

test('without any key the service starts, lists and deletes secrets, and rejects new ones', async () => {
  await using site = await createSite({})
  const path = join(site.dataDir, 'encryption.key')
  const key = await readFile(path, 'utf8')
  await rm(path)
  {
    await using service = await startService({ dataDir: site.dataDir })
    assert.match(service.log(), /there is no encryption key/)
    assert.equal((await service.admin.get('/repos/site/secrets')).body.length, 3)
    const refused = await service.admin.put('/repos/site/secrets/S0', { value: 'x' })
    assert.deepEqual([refused.status, refused.body.code], [503, 'encryption_key_missing'])
    assert.equal((await service.admin.delete('/repos/site/secrets/S2')).status, 204)
    assert.equal((await service.admin.get('/health')).body.status, 'ok')
  }
  await writeFile(path, key)
  assert.deepEqual(await site.open(key.trim()), { S0: 'value 0', S1: 'value 1' })
})

test('after a rotation only the first key is needed', async () => {
  await using site = await createSite()
  const both = { SVC_ENCRYPTION_KEY: `${next},${old}` }
  const rotated = await site.run(['secrets', 'rotate', '--json'], both)
  assert.deepEqual(JSON.parse(rotated.out), { resealed: 3, unreadable: 0, named: [], discarded: 0 })
  assert.deepEqual(await site.open(next), site.expected)
  assert.equal(
    (await site.run(['secrets', 'rotate'], both)).out,
    'Encrypted again with the first key: 0.\n',
  )
  await using service = await startService({
    dataDir: site.dataDir,
    env: { SVC_ENCRYPTION_KEY: next },
  })
  assert.equal((await service.admin.get('/repos/site/secrets')).body.length, 3)
})

test('a rotation beside a running server keeps concurrent changes', async () => {
  await using site = await createSite({ SVC_ENCRYPTION_KEY: old }, 60)
  const both = { SVC_ENCRYPTION_KEY: `${next},${old}` }
  await using service = await startService({ dataDir: site.dataDir, env: both })
  const rotating = site.run(['secrets', 'rotate'], both)
  for (let at = 0; at < 60; at += 3) {
    const { status } = await service.admin.put(`/repos/site/secrets/S${at}`, {
      value: `later ${at}`,
    })
    assert.equal(status, 200)
    site.expected[`S${at}`] = `later ${at}`
  }
  const { code, err } = await rotating
  assert.deepEqual([code, /A server is running/.test(err)], [0, true])
  await service.end('SIGTERM')
  assert.deepEqual(await site.open(next), site.expected)
})

describe('a rotation that is killed', () => {
  const steps = faultSteps.filter((step) => step.startsWith('secrets.'))
  const kill = async (env: Record<string, string>) => {
    for (const step of sampleOf(steps, 1)) {
      await using site = await createSite({ SVC_ENCRYPTION_KEY: old, ...env })
      const [id = ''] = Object.values(env)
      const both = { SVC_ENCRYPTION_KEY: `${next},${old}`, ...env }
      const open = (...keys: string[]) =>
        env.SVC_DATABASE_URL ? openThere(id, keys) : site.open(...keys)
      for (let killed = 0; killed < 3; killed++) {
        const { signal } = await site.run(['secrets', 'rotate'], { ...both, SVC_FAULT_POINT: step })
        assert.equal(signal, 'SIGKILL', step)
        assert.deepEqual(await open(next, old), site.expected)
      }
      const { out } = await site.run(['secrets', 'rotate'], both)
      assert.match(out, /: 0\.\n$/)
      assert.deepEqual(await open(next), site.expected)
    }
  }
  const openThere = async (url: string, keys: string[]) => {
    const db = await openDatabase({ dataDir: '', url, log })
    const { scopeId } = await db.selectFrom('secrets').select('scopeId').executeTakeFirstOrThrow()
    await db.destroy()
    return openSecrets('', scopeId, keys, url)
  }

  test('loses nothing, and the next one continues', () => kill({}))

  test('loses nothing on PostgreSQL', { skip: without('postgres') }, async () => {
    const database = await createPostgresDatabase()
    await kill({ SVC_DATABASE_URL: database.url }).finally(() => database.drop())
  })
})

test('secrets without a key are deleted only on request, and not beside a server', async () => {
  await using site = await createSite()
  const lost = { SVC_ENCRYPTION_KEY: next }
  const refused = await site.run(['secrets', 'rotate'], lost)
  assertRefused(
    refused,
    /3 cannot be decrypted: site\/S0, site\/S1, site\/S2; .*--discard-unreadable/,
  )
  assert.deepEqual(await site.open(old), site.expected)
  const discard = ['secrets', 'rotate', '--discard-unreadable']
  {
    await using _running = await startService({
      dataDir: site.dataDir,
      env: { SVC_ENCRYPTION_KEY: old },
    })
    assertRefused(await site.run(discard, lost), /Another svc server is running/)
  }
  assert.deepEqual(await site.open(old), site.expected)
  assert.match((await site.run(discard, lost)).out, /: 0\. Deleted: 3\.\n$/)
  assert.deepEqual(await site.open(next), {})
  await using service = await startService({ dataDir: site.dataDir, env: lost })
  assert.deepEqual((await service.admin.get('/repos/site/secrets')).body, [])
})

test('a value is read from standard input, without its last line end, and never from the command line', async () => {
  await using site = await createSite({}, 0)
  const key = (await readFile(join(site.dataDir, 'encryption.key'), 'utf8')).trim()
  const set = (name: string, input: string | Buffer) =>
    runSvc(['secrets', 'set', 'site', name], { SVC_DATA_DIR: site.dataDir }, input)
  const values: [string, string, string][] = [
    ['A', 'hush\n', 'hush'],
    ['B', 'two\nlines\r\n\n', 'two\nlines'],
    ['C', ' \ufeffno end', ' \ufeffno end'],
    ['D', 'ä'.repeat(24_576), 'ä'.repeat(24_576)],
  ]
  for (const [name, input] of values) {
    const { code, out, err } = await set(name, input)
    assert.deepEqual([code, err], [0, ''])
    assert.match(out, new RegExp(`^The secret ${name} is saved`))
  }
  const expected = Object.fromEntries(values.map(([name, , value]) => [name, value]))
  assert.deepEqual(await site.open(key), expected)
  for (const input of ['', '\n', 'x'.repeat(49_153), 'x'.repeat(100_000), 'a\0b']) {
    assertRefused(await set('E', input), /must be a text of 1 byte to 48 KiB/)
  }
  assertRefused(await set('E', Buffer.of(0x68, 0xff, 0xfe)), /The value is not UTF-8/)
  assertRefused(await set('PATH', 'x'), /Choose another name/)
  for (const given of ['hush-hush', '--value=hush-hush', '-hush-hush', '--body']) {
    const { code, err } = await site.run(['secrets', 'set', 'site', 'E', given, 'hush-hush'])
    assert.match(
      err,
      /^error: this takes a repository or --namespace, a name, .* read from standard input\n/,
    )
    assert.deepEqual([code, err.includes('hush')], [2, false])
  }
  const listed = JSON.parse((await site.run(['secrets', 'list', 'site', '--json'])).out)
  assert.deepEqual(
    listed.map(({ name }: { name: string }) => name),
    ['A', 'B', 'C', 'D'],
  )
  assert.match((await site.run(['secrets', 'list', 'site'])).out, /^NAME +CREATED +UPDATED\nA /)
  assert.equal((await site.run(['secrets', 'delete', 'site', 'A'])).out, 'Deleted the secret A.\n')
  assertRefused(await site.run(['secrets', 'delete', 'site', 'A']), /There is no secret "A"/)
})

const pty = '/usr/bin/script'

test('on a terminal the value is prompted for and not echoed', {
  skip: !existsSync(pty) && 'needs script (apt-get install bsdutils)',
}, async () => {
  await using site = await createSite({ SVC_ENCRYPTION_KEY: old }, 0)
  const env = { PATH: process.env.PATH, SVC_DATA_DIR: site.dataDir, SVC_ENCRYPTION_KEY: old }
  // script(1) gives what it reads to the program as typed, and repeats what a terminal would show.
  const child = spawn(pty, ['-qec', `${launcher} secrets set site TYPED`, '/dev/null'], { env })
  let shown = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    if (!shown.includes('Value of') && (shown + text).includes('Value of'))
      child.stdin.write('hush-hush\r')
    shown += text
  })
  const [code] = await once(child, 'close')
  assert.equal(code, 0, shown)
  assert.match(shown, /^Value of TYPED: \r\nThe secret TYPED is saved/)
  assert.deepEqual(await site.open(old), { TYPED: 'hush-hush' })
})

test('secrets are restored from a backup with the key, or with the key supplied separately', async () => {
  await using site = await createBackupSite()
  const { body } = await site.service.admin.get('/repos')
  const { id } = body.find(({ name }: { name: string }) => name === 'site')
  await site.service.admin.put('/repos/site/secrets/TOKEN', { value: 'hush' })
  const key = (await readFile(join(site.service.dataDir, 'encryption.key'), 'utf8')).trim()
  const restore = async (name: string, env: Record<string, string> = {}) => {
    const dataDir = join(site.folder, name)
    await mustRun(['restore', site.backup], { SVC_DATA_DIR: dataDir, ...env })
    return dataDir
  }
  await site.backUp()
  const bare = await restore('bare')
  {
    await using service = await startService({ dataDir: bare })
    assert.match(service.log(), /there is no encryption key/)
    assert.equal((await service.admin.get('/health')).status, 200)
  }
  await writeFile(join(bare, 'encryption.key'), key)
  await using _started = await startService({ dataDir: bare })
  assert.deepEqual(await openSecrets(bare, id, [key]), { TOKEN: 'hush' })
  await site.backUp('--with-keys')
  const full = await restore('full')
  assert.equal((await readFile(join(full, 'encryption.key'), 'utf8')).trim(), key)
  assert.deepEqual(await openSecrets(full, id, [key]), { TOKEN: 'hush' })
})

test('secrets move from SQLite to PostgreSQL and back', { skip: without('postgres') }, async () => {
  await using site = await createBackupSite()
  const { body } = await site.service.admin.get('/repos')
  const { id } = body.find(({ name }: { name: string }) => name === 'site')
  await site.service.admin.put('/repos/site/secrets/TOKEN', { value: 'hush' })
  await site.backUp('--with-keys')
  const key = (await readFile(join(site.service.dataDir, 'encryption.key'), 'utf8')).trim()
  const { url, drop } = await createPostgresDatabase({ isEmpty: true })
  try {
    const there = { SVC_DATA_DIR: join(site.folder, 'there'), SVC_DATABASE_URL: url }
    await mustRun(['restore', site.backup], there)
    assert.deepEqual(await openSecrets('', id, [key], url), { TOKEN: 'hush' })
    const again = join(site.folder, 'again')
    await mustRun(['backup', again, '--with-keys'], there)
    const back = join(site.folder, 'back')
    await mustRun(['restore', again], { SVC_DATA_DIR: back })
    assert.deepEqual(await openSecrets(back, id, [key]), { TOKEN: 'hush' })
  } finally {
    await drop()
  }
})
