// Tags: exhaustive
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { cp, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, test } from 'node:test'
import { createLog } from '#base/log.ts'
import { connect } from '#database/database.ts'
import { migrate } from '#database/migrate.ts'
import { migrations } from '#database/migrations.ts'
import { createBackupSite } from '../support/backup-site.ts'
import { assertAgrees, assertRefused, contentOf, mustRun, refsOf } from '../support/backups.ts'
import { runSvc, startSvc } from '../support/command.ts'
import { runInProcess } from '../support/command-in-process.ts'
import { until } from '../support/condition.ts'
import { temporaryFolder } from '../support/git.ts'
import { startService } from '../support/service.ts'

type Fault = { file?: string; repository?: string; fault: string }
type Table = { name: string; parts: string[] }
type Site = Awaited<ReturnType<typeof createBackupSite>>

const log = createLog({ level: 'silent', output: process.stderr })
let site: Site

before(async () => {
  site = await createBackupSite()
  await site.backUp('--with-keys')
})

after(() => site[Symbol.asyncDispose]())

test('every changed, truncated or missing file of a backup is reported by name', async () => {
  await using copy = await copyOfBackup()
  for (const path of await kindsOf(copy.path)) {
    const file = join(copy.path, path)
    const whole = await readFile(file)
    const flipped = Buffer.from(whole)
    flipped[whole.length >> 1] = (whole[whole.length >> 1] ?? 0) ^ 1
    for (const damaged of [whole.subarray(0, -1), flipped]) {
      await writeFile(file, damaged)
      await assertReported(copy.path, path)
    }
    await assertNothingRestored(copy.path)
    await rm(file)
    if (path === 'manifest.json') {
      assertRefused(
        await runInProcess(['backup', 'verify', copy.path]),
        /there is no manifest.json in it/,
      )
    } else await assertReported(copy.path, path)
    await assertNothingRestored(copy.path)
    await writeFile(file, whole)
  }
  assert.deepEqual(await verify(copy.path), { code: 0, faults: [], unknown: [] })
})

test('a change of any byte of a manifest is detected', async () => {
  await using copy = await copyOfBackup()
  const file = join(copy.path, 'manifest.json')
  const whole = await readFile(file)
  for (let place = 0; place < whole.length; place += Math.ceil(whole.length / 25)) {
    const changed = Buffer.from(whole)
    changed[place] = (whole[place] ?? 0) ^ 1
    await writeFile(file, changed)
    await assertReported(copy.path, 'manifest.json')
  }
})

test('a file that is not part of a backup is reported by name and ignored', async () => {
  await using copy = await copyOfBackup()
  await writeFile(join(copy.path, 'notes.txt'), 'Keep until spring')
  await writeFile(join(copy.path, 'rows', 'f'.repeat(64)), '{}\n')
  const { code, unknown } = await verify(copy.path)
  assert.deepEqual([code, unknown], [0, ['notes.txt', `rows/${'f'.repeat(64)}`]])
  assert.match(await mustRun(['backup', 'verify', copy.path]), /^notes.txt: is not part/)
})

test('intact files without the objects that refs need are reported with the repository', async () => {
  await using copy = await copyOfBackup()
  const manifest = await readManifest(copy.path)
  const { id } = manifest.repositories.find(({ name }: { name: string }) => name === 'page')
  const ofPage = (path: string) => path.startsWith(`repositories/${id}/`)
  for (const { path } of manifest.files.filter(({ path }: { path: string }) => ofPage(path))) {
    await rm(join(copy.path, path))
  }
  manifest.files = manifest.files.filter(({ path }: { path: string }) => !ofPage(path))
  await writeManifest(copy.path, manifest)
  const { code, faults } = await verify(copy.path)
  assert.equal(code, 1)
  assert.ok(faults.length > 0)
  assert.deepEqual(new Set(faults.map(({ repository }) => repository)), new Set(['page']))
  assert.match(
    faults.map(({ fault }) => fault).join('\n'),
    /refs\/heads\/main: invalid sha1 pointer/,
  )
})

test('inconsistent rows are reported', async () => {
  await using copy = await copyOfBackup()
  const manifest = await readManifest(copy.path)
  const before = structuredClone(manifest)
  const table = (name: string) => manifest.tables.find((one: { name: string }) => one.name === name)
  const cases: [() => Promise<void>, RegExp][] = [
    [
      async () => {
        table('repositories').parts = []
        table('repositories').rows = 0
      },
      /cannot be inserted into \w+: FOREIGN KEY/,
    ],
    [
      async () => {
        table('events').rows += 1
      },
      /The table events has \d+ rows; the manifest says \d+/,
    ],
    [
      async () => {
        manifest.repositories.pop()
      },
      /The rows and the manifest name different repositories|no such repository/,
    ],
    [
      async () => {
        manifest.instanceId = manifest.id
      },
      /of different services/,
    ],
    [
      async () => {
        manifest.tables.pop()
      },
      /The manifest has the tables/,
    ],
    [() => replaceRows('{"seq":1}\n'), /cannot be inserted into events/],
    [() => replaceRows('{"seq; drop table events":1}\n'), /cannot be inserted into events/],
    [() => replaceRows('[1]\n'), /line 1 is not a row/],
    [() => replaceRows('{"seq":1}\n{"kind":"push"}\n'), /different columns/],
    [() => replaceRows('{"seq":1}'), /last line is incomplete/],
  ]
  async function replaceRows(text: string): Promise<void> {
    const sha256 = sumOf(text)
    await writeFile(join(copy.path, 'rows', sha256), text)
    manifest.files.push({ path: `rows/${sha256}`, bytes: text.length, sha256 })
    table('events').parts = [sha256]
  }
  for (const [change, sentence] of cases) {
    Object.assign(manifest, structuredClone(before))
    await change()
    await writeManifest(copy.path, manifest)
    const { code, faults } = await verify(copy.path)
    assert.equal(code, 1)
    assert.match(faults.map(({ fault }) => fault).join('\n'), sentence)
    const to = join(site.folder, 'none')
    assertRefused(await runInProcess(['restore', copy.path], { SVC_DATA_DIR: to }), sentence)
    await assert.rejects(stat(to), { code: 'ENOENT' })
  }
})

test('an import in a backup with a path as its name is rejected', async () => {
  await using copy = await copyOfBackup()
  const manifest = await readManifest(copy.path)
  const row = {
    ...{ repository_id: '../../../x', name: 'x', name_key: 'x', owner_token_id: 'x' },
    ...{ owner_username: 'x', source: '/x', phase: 'counting', progress: 0, fault_code: null },
    ...{ fault_detail: null, started_at: 1, ended_at: null },
  }
  const text = `${JSON.stringify(row)}\n`
  const sha256 = sumOf(text)
  await writeFile(join(copy.path, 'rows', sha256), text)
  manifest.files.push({ path: `rows/${sha256}`, bytes: text.length, sha256 })
  const imports = manifest.tables.find(({ name }: Table) => name === 'imports')
  Object.assign(imports, { rows: 1, parts: [sha256] })
  await writeManifest(copy.path, manifest)
  const { faults } = await verify(copy.path)
  assert.match(faults.map(({ fault }) => fault).join('\n'), /with the id "\.\.\/\.\.\/\.\.\/x"/)
  const to = join(site.folder, 'none')
  assertRefused(
    await runInProcess(['restore', copy.path], { SVC_DATA_DIR: to }),
    /have a repository with the id/,
  )
})

test('a manifest with foreign paths, of another version or with contradictions is rejected', async () => {
  await using copy = await copyOfBackup()
  const outside = join(dirname(copy.path), 'outside')
  const sound = await readManifest(copy.path)
  const [first] = sound.files
  const odd = (path: string) => ({ ...sound, files: [...sound.files, { ...first, path }] })
  const cases: [unknown, RegExp][] = [
    ...['../outside', '/etc/passwd', 'rows/../../outside', 'keys/../x', 'refs/', 'svc.db'].map(
      (path): [unknown, RegExp] => [odd(path), /must match pattern/],
    ),
    [{ ...sound, files: [...sound.files, first] }, /it names a file twice/],
    [
      { ...sound, repositories: [...sound.repositories, sound.repositories[0]] },
      /repository twice/,
    ],
    [{ ...sound, tables: [...sound.tables, sound.tables[0]] }, /it names a table twice/],
    [{ ...sound, files: sound.files.slice(0, -1) }, /it lacks the file rows/],
    [{ ...sound, files: [{ ...first, bytes: 1e300 }] }, /is damaged/],
    [{ ...sound, files: [{ ...first, bytes: -1 }] }, /is damaged/],
    [{ ...sound, repositories: [{ ...sound.repositories[0], id: '../../x' }] }, /is damaged/],
    [{ ...sound, more: 1 }, /is damaged/],
    [{ ...sound, format: 2 }, /of a newer svc \(format 2\); use that version/],
    [{ ...sound, schemaVersion: 4711 }, /of a newer svc \(schema 4711\); use that version/],
    [[], /is damaged/],
    ['', /is damaged/],
  ]
  for (const [manifest, sentence] of cases) {
    await writeManifest(copy.path, manifest)
    const result = await runInProcess(['backup', 'verify', copy.path])
    assert.equal(result.code, 1)
    assert.match(result.out, sentence)
    assertRefused(await runInProcess(['restore', copy.path], { SVC_DATA_DIR: outside }), sentence)
    await assert.rejects(stat(outside), { code: 'ENOENT' })
  }
  const last = await runSvc(['backup', copy.path], site.env)
  assertRefused(last, /manifest.json is damaged: it is not a JSON object/)
})

test('refs that svc would not write are rejected, even with correct checksums', async () => {
  await using copy = await copyOfBackup()
  const sound = await readManifest(copy.path)
  const site = sound.repositories.find(({ name }: { name: string }) => name === 'site')
  const text = await readFile(join(copy.path, 'refs', site.refs), 'latin1')
  const [, id = ''] = /^([0-9a-f]{40}) /m.exec(text) ?? []
  const head = 'ref:refs/heads/main HEAD\n'
  const cases = [
    `ref:../../../outside HEAD\n`,
    `${id} HEAD\n`,
    `${head}${id} ../../hooks/pre-receive\n`,
    `${head}${id} refs/heads/../../../config\n`,
    `${head}${id} refs/heads/a\0b\n`,
    `${head}${id} refs/heads/b\n${id} refs/heads/a\n`,
    `${head}${id} refs/heads/a\n${id} refs/heads/a\n`,
    `${head}ref:config refs/heads/a\n`,
    `${head}$(id) refs/heads/a\n`,
    `${head}${id} refs/heads/a`,
    `${id} refs/heads/main\n`,
    '',
  ]
  for (const content of cases) {
    const manifest = structuredClone(sound)
    const sha256 = sumOf(content)
    await writeFile(join(copy.path, 'refs', sha256), content, 'latin1')
    manifest.files.push({ path: `refs/${sha256}`, bytes: content.length, sha256 })
    manifest.repositories.find(({ name }: { name: string }) => name === 'site').refs = sha256
    await writeManifest(copy.path, manifest)
    const { code, faults } = await verify(copy.path)
    assert.equal(code, 1, content)
    assert.match(faults[0]?.fault ?? '', /is not in the format of svc/)
    assert.equal(faults[0]?.repository, 'site')
    await assertNothingRestored(copy.path)
  }
})

test('links in the folder of a backup are rejected, and their targets are neither read nor removed', async () => {
  await using copy = await copyOfBackup()
  await using elsewhere = await temporaryFolder()
  const treasure = join(elsewhere.path, 'treasure')
  await mkdir(join(elsewhere.path, 'pack'))
  await writeFile(treasure, 'gold')
  const manifest = await readManifest(copy.path)
  const { path: pack } = manifest.files.find(({ path }: { path: string }) => path.endsWith('.pack'))
  const places = ['manifest.json', 'svc-backup.lock', 'rows', pack, 'repositories/link']
  for (const place of places) {
    await using again = await copyOfBackup()
    const at = join(again.path, place)
    await rm(at, { recursive: true, force: true })
    await symlink(place === 'rows' ? elsewhere.path : treasure, at)
    assertRefused(
      await runInProcess(['backup', again.path], site.env),
      /neither a file nor a folder|is not the empty file/,
    )
    await assertNothingRestored(again.path)
    const { code, out, err } = await runInProcess(['backup', 'verify', again.path])
    assert.equal(code, 1)
    assert.ok(`${out}${err}`.includes(place), `${out}${err}`)
    assert.equal(await readFile(treasure, 'utf8'), 'gold')
  }
  await writeFile(join(copy.path, 'svc-backup.lock'), 'a database with a journal')
  assertRefused(
    await runSvc(['backup', 'verify', copy.path]),
    /is not the empty file that svc creates/,
  )
})

test('a missing or invalid backup is rejected with a message', async () => {
  const env = { SVC_DATA_DIR: join(site.folder, 'none') }
  for (const command of [['restore'], ['backup', 'verify']]) {
    const absent = await runSvc([...command, join(site.folder, 'absent')], env)
    assertRefused(absent, /absent cannot be read: no such directory\./)
    assertRefused(await runSvc([...command, site.service.dataDir], env), /holds no backup/)
  }
})

test('a restore goes only into a new folder', async () => {
  const { dataDir } = site.service
  const before = await readdir(dataDir)
  const refused = await runSvc(['restore', site.backup], { SVC_DATA_DIR: dataDir })
  assertRefused(refused, /is not empty; restore into a new or empty directory/)
  assert.deepEqual(await readdir(dataDir), before)
  const inside = { SVC_DATA_DIR: join(site.backup, 'data') }
  assertRefused(await runSvc(['restore', site.backup], inside), /contain one another/)
  assert.ok(!(await readdir(site.backup)).includes('data'))
  const empty = join(site.folder, 'empty')
  await mkdir(empty)
  await mustRun(['restore', site.backup], { SVC_DATA_DIR: empty })
})

test('a verification leaves nothing behind, whether it succeeds, fails or is interrupted', async () => {
  await using folder = await temporaryFolder()
  await using copy = await copyOfBackup()
  const env = { TMPDIR: folder.path }
  await mustRun(['backup', 'verify', copy.path], env)
  assert.deepEqual(await readdir(folder.path), [])
  const { child, ended } = startSvc(['backup', 'verify', copy.path], env)
  await until('it is at work', async () => (await readdir(folder.path)).length > 0)
  child.kill('SIGTERM')
  const { code, err } = await ended
  assert.deepEqual([code, err], [143, 'svc: interrupted\n'])
  assert.deepEqual(await readdir(folder.path), [])
  await rm(join(copy.path, 'refs'), { recursive: true })
  assert.equal((await runSvc(['backup', 'verify', copy.path], env)).code, 1)
  assert.deepEqual(await readdir(folder.path), [])
})

test('a backup of an older svc restores into the tables of this one', async () => {
  const schemaVersion = 5
  await using copy = await copyOfBackup()
  await using folder = await temporaryFolder()
  const db = await connect({ dataDir: folder.path, url: undefined, log })
  await migrate(db, 'sqlite', migrations.slice(0, schemaVersion))
  await db.destroy()
  using old = new DatabaseSync(join(folder.path, 'svc.db'))
  const manifest = await readManifest(copy.path)
  const columns = (table: string) =>
    old
      .prepare('select name from pragma_table_info(?)')
      .all(table)
      .map(({ name }) => String(name))
  manifest.schemaVersion = schemaVersion
  manifest.tables = manifest.tables.filter(({ name }: Table) => columns(name).length > 0)
  for (const table of manifest.tables) {
    const known = columns(table.name)
    for (const [index, part] of table.parts.entries()) {
      const lines = (await readFile(join(copy.path, 'rows', part), 'utf8')).trim().split('\n')
      // Marks of later tables come with them.
      const rows = lines
        .map((line) => JSON.parse(line))
        .filter(({ name }) => !['maintenance', 'workflows', 'audit'].includes(name))
        // Then all belonged to repositories.
        .map((row) => ({ repository_id: row.scope_id, ...row }))
      table.rows -= lines.length - rows.length
      const text = rows.map((row) => `${JSON.stringify(row, known)}\n`).join('')
      const sha256 = sumOf(text)
      await writeFile(join(copy.path, 'rows', sha256), text)
      manifest.files = manifest.files.filter(
        ({ path }: { path: string }) => path !== `rows/${part}`,
      )
      manifest.files.push({ path: `rows/${sha256}`, bytes: text.length, sha256 })
      table.parts[index] = sha256
    }
  }
  await writeManifest(copy.path, manifest)
  assert.deepEqual((await verify(copy.path)).faults, [])
  const dataDir = join(site.folder, 'older')
  await mustRun(['restore', copy.path], { SVC_DATA_DIR: dataDir })
  await using again = await startService({
    dataDir,
    env: { SVC_ADMIN_TOKEN: site.service.adminToken },
  })
  await assertAgrees(again)
  assert.deepEqual(await refsOf(again), await site.refs())
})

async function copyOfBackup() {
  const folder = await temporaryFolder()
  const path = join(folder.path, 'backup')
  await cp(site.backup, path, { recursive: true, preserveTimestamps: true })
  return { path, [Symbol.asyncDispose]: folder[Symbol.asyncDispose] }
}

/** One file of each kind. */
async function kindsOf(folder: string): Promise<string[]> {
  const paths = [...(await contentOf(folder)).keys()].filter((path) => !path.startsWith('svc-'))
  const kinds = Map.groupBy(paths, (path) => path.replace(/[0-9a-z]{20,}/g, '*'))
  return [...kinds.values()].map(([path = '']) => path)
}

async function verify(folder: string) {
  const { code, out } = await runInProcess(['backup', 'verify', folder, '--json'])
  const { faults, unknown }: { faults: Fault[]; unknown: string[] } = JSON.parse(out)
  return { code, faults, unknown }
}

async function assertReported(folder: string, path: string): Promise<void> {
  const { code, faults } = await verify(folder)
  assert.equal(code, 1)
  const about = faults.filter(({ file }) => file === path)
  assert.equal(about.length, 1, `${path}: ${JSON.stringify(faults)}`)
  if (path.startsWith('repositories/')) assert.match(about[0]?.repository ?? '', /site|page/)
}

async function assertNothingRestored(folder: string): Promise<void> {
  const to = join(site.folder, 'none')
  const { code, err } = await runInProcess(['restore', folder], { SVC_DATA_DIR: to })
  assert.equal(code, 1)
  assert.doesNotMatch(err, /\n\s+at /)
  await assert.rejects(stat(to), { code: 'ENOENT' })
}

// biome-ignore lint/suspicious/noExplicitAny: tests make of a manifest what no type allows
async function readManifest(folder: string): Promise<any> {
  return JSON.parse(await readFile(join(folder, 'manifest.json'), 'utf8'))
}

/** Writes a manifest with the right sum, as an attacker would. */
async function writeManifest(folder: string, manifest: unknown): Promise<void> {
  const none = '0'.repeat(64)
  const isObject = typeof manifest === 'object' && !Array.isArray(manifest)
  const content = isObject ? { ...manifest, sha256: none } : manifest
  const text = JSON.stringify(content, null, 1)
  await writeFile(join(folder, 'manifest.json'), text.replace(none, sumOf(text)))
}

function sumOf(text: string): string {
  return createHash('sha256').update(Buffer.from(text, 'latin1')).digest('hex')
}
