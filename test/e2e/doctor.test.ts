import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { lstat, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { checks } from '#ops/doctor/checks/checks.ts'
import { createCommitPool } from '../support/commit-pool.ts'
import { until } from '../support/condition.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import {
  askDoctor,
  createPatient,
  createPrograms,
  examine,
  type Patient,
} from '../support/doctor.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, git, temporaryFolder } from '../support/git.ts'
import { signal } from '../support/processes.ts'
import { without } from '../support/programs.ts'
import { isSoak, toRounds } from '../support/rounds.ts'
import { launcher, type Service, startService, startServiceWithSsh } from '../support/service.ts'

const rounds = toRounds(1)
let patient: Patient

before(async () => {
  patient = await createPatient()
})

after(() => patient[Symbol.asyncDispose]())

// What the machine of a test may lack, and the directory is not to blame for.
const ofMachine = new Set(['git', 'ssh-client', 'sandbox', 'limits', 'file-system', 'disk'])

test('a healthy data directory has no faults, and warnings only about the machine', async () => {
  const { dataDir } = await patient.copy()
  const { code, results, stderr } = await examine({ dataDir })
  const findings = results.filter(({ level, check }) => level !== 'ok' && !ofMachine.has(check))
  assert.deepEqual([findings, code, stderr], [[], 0, ''])
  // Deliveries may fail, and are no matter of this check: it does not say that none does.
  assert.deepEqual(
    results.filter(({ check }) => check === 'webhooks').map(({ title, found }) => [title, found]),
    [
      [
        'disabled webhooks and overdue deliveries',
        'No webhook was disabled because all its deliveries failed.',
      ],
    ],
  )
  assert.deepEqual(
    [...new Set(results.map(({ check }) => check))],
    checks.map(({ id }) => id),
  )
})

test('JSON output is an array of results with findings and fixes', async () => {
  const { dataDir } = await patient.copy()
  await rm(join(dataDir, 'encryption.key'))
  const { results } = await examine({ dataDir, env: { SVC_PORT: 'x' } })
  const levels = new Set(results.map(({ level }) => level))
  for (const level of ['ok', 'warning', 'fault', 'skipped'] as const) assert.ok(levels.has(level))
  for (const result of results) {
    assert.deepEqual(Object.keys(result), ['check', 'title', 'level', 'found', 'fix'])
    assert.ok(result.found.length > 0 && !/[\n\x1b]/.test(result.found))
    assert.equal(result.fix !== null, result.level === 'warning' || result.level === 'fault')
  }
})

test('text output has a line per finding, its fix below, and a summary', async () => {
  const { dataDir, repository } = await patient.copy()
  await rm(join(repository, 'HEAD'))
  const { code, output, stderr } = await askDoctor({ dataDir, program: launcher })
  assert.deepEqual([code, stderr], [1, ''])
  assert.match(output, /^ok +program +svc \d+\.\d+\.\d+ on Node /)
  assert.match(output, /^FAULT +repository-files +\S+\.git has no HEAD, .*\n +fix: printf /m)
  assert.match(output, /\n\n\d+ checks: 2 faults, (no|\d+) warnings?\.\n$/)
  assert.doesNotMatch(output, /\x1b/)
})

test('warnings alone exit with 0', async () => {
  const { dataDir } = await patient.copy()
  await rm(join(dataDir, 'ssh_host_ed25519_key'))
  const { code, output } = await askDoctor({ dataDir })
  assert.match(output, /^warning +keys /m)
  assert.match(output, /checks: no faults, /)
  assert.equal(code, 0)
})

test('a check that fails does not prevent the others', exhaustive, async () => {
  const { dataDir, database } = await patient.copy()
  await writeFile(database, 'no database at all, but long enough to be taken for one'.repeat(100))
  const { of } = await examine({ dataDir })
  assert.equal(of('database')[0]?.level, 'fault')
  // The folders show which repositories exist, too.
  assert.match(of('objects')[0]?.found ?? '', /^1 repository: every object is present/)
  assert.deepEqual([of('keys')[0]?.level, of('repositories')[0]?.level], ['ok', 'skipped'])
})

test('objects of all repositories are checked, of one, or of none', exhaustive, async () => {
  await using service = await startServiceWithSsh()
  await using project = await createProject()
  for (const name of ['whole', 'damaged']) {
    await service.admin.post('/repos', { name })
    await project.git('push', '--quiet', service.admin.remote(name), 'main')
  }
  const { path } = (await service.admin.get('/repos/damaged')).body
  await service.end('SIGTERM')
  await rm(join(path, 'objects/pack'), { recursive: true })
  const levelOf = async (...args: string[]) => {
    const { of, code } = await examine({ dataDir: service.dataDir, args })
    return [of('objects')[0]?.level, of('objects')[0]?.found.split(/[ :]/)[0], code]
  }
  assert.deepEqual(await levelOf(), ['fault', 'damaged', 1])
  assert.deepEqual(await levelOf('--repository', 'damaged'), ['fault', 'damaged', 1])
  assert.deepEqual(await levelOf('--repository', 'whole'), ['ok', 'whole', 0])
  assert.deepEqual(await levelOf('--no-fsck'), ['ok', 'Skipped', 0])
})

test('deleted repositories are checked, and are no fault', exhaustive, async () => {
  await using service = await startServiceWithSsh()
  await using project = await createProject()
  await service.admin.post('/repos', { name: 'site' })
  await project.git('push', '--quiet', service.admin.remote('site'), 'main')
  const { id } = (await service.admin.get('/repos/site')).body
  await service.admin.delete('/repos/site')
  await service.admin.post('/repos', { name: 'site' })
  const levels = async () => {
    const { of, code } = await examine({ dataDir: service.dataDir })
    const ids = ['repositories', 'repository-files', 'objects', 'pushes', 'webhooks']
    return [...ids.map((check) => of(check)[0]?.level), code]
  }
  assert.deepEqual(await levels(), ['ok', 'ok', 'ok', 'ok', 'ok', 0])
  await service.end('SIGTERM')
  await rm(join(service.dataDir, 'deleted', `${id}.git`, 'objects/pack'), { recursive: true })
  assert.deepEqual(await levels(), ['ok', 'ok', 'fault', 'ok', 'ok', 1])
})

test('of many similar faults, the first are listed and the rest counted', exhaustive, async () => {
  const { dataDir } = await patient.copy()
  for (let number = 0; number < 25; number++) {
    await writeFile(join(dataDir, 'repositories', `stray-${number}`), '')
  }
  const found = (await examine({ dataDir })).of('repositories').map((result) => result.found)
  assert.deepEqual([found.length, found.at(-1)], [11, '15 more of this kind.'])
})

describe('svc doctor changes nothing', exhaustive, () => {
  test('after the service was stopped', async () => {
    const { dataDir } = await patient.copy()
    await assertUnchanged(dataDir)
  })

  test('after the service was killed, with the last commit in the write-ahead log', async () => {
    await using service = await startServiceWithSsh()
    await service.admin.post('/repos', { name: 'last' })
    await service.end('SIGKILL')
    assert.ok((await stat(join(service.dataDir, 'svc.db-wal'))).size > 0)
    const { of } = await assertUnchanged(service.dataDir)
    assert.deepEqual(of('repositories')[0]?.found, '1 row, 1 directory.')
    assert.equal(of('instance')[0]?.level, 'ok')
  })

  test('with many faults', exhaustive, async () => {
    const { dataDir, repository } = await patient.copy()
    for (const name of ['staging', 'trash', 'lost+found']) {
      await mkdir(join(dataDir, name, 'left.git'), { recursive: true })
    }
    await writeFile(join(repository, 'HEAD.lock'), '')
    await rm(join(repository, 'refs'), { recursive: true })
    await rm(join(dataDir, 'ssh_host_ed25519_key'))
    await assertUnchanged(dataDir)
  })

  test('without a data directory', async () => {
    await using folder = await temporaryFolder()
    const { code } = await examine({ dataDir: join(folder.path, 'nowhere') })
    assert.deepEqual([await readdir(folder.path), code], [[], 1])
    await mkdir(join(folder.path, 'empty'))
    await assertUnchanged(join(folder.path, 'empty'))
  })
})

describe('svc doctor beside a running server', exhaustive, () => {
  let service: Service

  before(async () => {
    service = await startServiceWithSsh()
  })

  after(() => service[Symbol.asyncDispose]())

  const transports = () => ({
    SVC_PORT: new URL(service.url).port,
    SVC_SSH_PORT: String(service.sshPort),
  })

  test('finds both ports', async () => {
    const { of, code } = await examine({ dataDir: service.dataDir, env: transports() })
    assert.match(of('http-port')[0]?.found ?? '', /^A server runs, and its health is "ok" at 127/)
    assert.match(of('ssh-port')[0]?.found ?? '', /^A server runs, and SSH answers as SSH-2\.0-svc/)
    assert.equal(code, 0)
  })

  test('finds no fault while repositories are created, pushed to and deleted', async () => {
    await service.admin.post('/repos', { name: 'with-sha256', objectFormat: 'sha256' })
    await using pool = await createCommitPool(100)
    const commits = Array.from({ length: 100 }, () => pool.next())
    let isOver = false
    let pushes = 0
    const push = async (name: string) => {
      const remote = service.admin.remote(name)
      await git(pool.path, ['push', '--quiet', remote, `+${commits[pushes % 100]}:refs/heads/main`])
      pushes += 1
    }
    const work = async (number: number) => {
      await service.admin.post('/repos', { name: `kept-${number}` })
      for (let round = 0; !isOver; round++) {
        const name = `passing-${number}-${round}`
        assert.equal((await service.admin.post('/repos', { name })).status, 201)
        await push(`kept-${number}`)
        await push(name)
        assert.equal((await service.admin.delete(`/repos/${name}`)).status, 204)
      }
    }
    const working = Promise.all((isSoak ? [1, 2, 3] : [1]).map(work))
    await Promise.race([working, until('pushes are running', () => pushes > 1)])
    const before = pushes
    for (let hold = 0; hold < rounds || pushes === before; hold++) {
      const { results } = await examine({ dataDir: service.dataDir, env: transports() })
      const bad = results.filter(({ level, check }) => level !== 'ok' && !ofMachine.has(check))
      assert.deepEqual(bad, [])
    }
    isOver = true
    await working
    assert.ok(pushes > before)
  })

  test('does not prevent a server from starting, however often it runs', async () => {
    const { dataDir } = await patient.copy()
    let isOver = false
    const looking = (async () => {
      while (!isOver) await examine({ dataDir, args: ['--no-fsck'] })
    })()
    for (let round = 0; round < toRounds(2); round++) {
      await using started = await startService({ dataDir })
      assert.equal(await started.end('SIGTERM'), 0)
    }
    isOver = true
    await looking
  })
})

test('names chosen by users are escaped on the terminal', async () => {
  const { dataDir } = await patient.copy()
  const evil = 'evil\x1b[2J\x1b]0;title\x07\u202e'
  await writeFile(join(dataDir, 'repositories', evil), '')
  await mkdir(join(dataDir, 'lost+found', `${evil}.git`), { recursive: true })
  const text = await askDoctor({ dataDir, env: { [`SVC_${evil}`]: '1' } })
  const json = await askDoctor({ dataDir, args: ['--json'] })
  for (const { output, stderr } of [text, json]) {
    assert.match(output, /evil/)
    assert.doesNotMatch(output + stderr, /[^\P{Cc}\n]|\p{Cf}/u)
  }
  // In JSON it is still the name, and the command names the file itself.
  const results: { found: string; fix: string }[] = JSON.parse(json.output)
  const stray = results.find(({ found }) => found.includes(evil))
  assert.match(stray?.fix ?? '', /^mv \$'[^']*evil\\033\[2J\\033/)
})

const pty = '/usr/bin/script'

test('colours and progress appear only on terminals, and NO_COLOR is respected', {
  ...exhaustive,
  skip: !existsSync(pty) && 'needs script (apt-get install bsdutils)',
}, async () => {
  const { dataDir } = await patient.copy()
  // What one writes to a terminal, script(1) repeats.
  const by = ['sh', '-c', `exec ${pty} -qec "$*" /dev/null`, 'sh']
  const onTerminal = (env: Record<string, string>) => askDoctor({ dataDir, env, by })
  const colored = await onTerminal({})
  assert.match(colored.output, /\x1b\[32mok +\x1b\[39mprogram/)
  assert.match(colored.output, /\r\x1b\[Kfsck 1 of 1: site\r\x1b\[K/)
  assert.doesNotMatch((await onTerminal({ NO_COLOR: '1' })).output, /\x1b\[\d+m/)
  const piped = await askDoctor({ dataDir, program: launcher })
  assert.doesNotMatch(piped.output + piped.stderr, /\x1b|fsck 1 of 1/)
})

test('a signal ends it and its git process', async () => {
  const { dataDir } = await patient.copy()
  await using folder = await temporaryFolder()
  const mark = join(folder.path, 'pid')
  await using programs = await createPrograms({
    git: `case "$*" in *fsck*) echo $$ >'${mark}'; exec sleep 1000;; *) echo git version 2.47.3;; esac`,
  })
  const child = spawn(launcher, ['doctor'], {
    env: { PATH: programs.first, SVC_DATA_DIR: dataDir, SVC_PORT: '0', SVC_SSH_PORT: '0' },
    stdio: 'ignore',
  })
  const exited = once(child, 'exit')
  const pid = await until('git runs', async () => {
    const text = await readFile(mark, 'utf8').catch(() => '')
    return text.endsWith('\n') && Number(text)
  })
  signal(child.pid ?? 0, 'SIGINT')
  assert.deepEqual(await exited, [130, null])
  await until('git has ended', () =>
    stat(`/proc/${pid}`).then(
      () => false,
      () => true,
    ),
  )
})

test('the password of a database is never printed', exhaustive, async () => {
  const { dataDir } = await patient.copy()
  const urls = ['postgres://svc:hunter2@127.0.0.1:1/svc', 'postgres://svc:hunter2@[bad/svc']
  for (const url of [...urls, 'mysql://svc:hunter2@127.0.0.1/svc']) {
    const { code, output, stderr } = await askDoctor({ dataDir, env: { SVC_DATABASE_URL: url } })
    assert.equal(code, 1)
    assert.doesNotMatch(output + stderr, /hunter2/)
  }
})

describe('svc doctor on PostgreSQL', { ...exhaustive, skip: without('postgres') }, () => {
  test('finds and reads the database', async () => {
    await using database = await createDatabase()
    const env = { SVC_DATABASE_URL: database.url }
    await using onPostgres = await createPatient(env)
    const { dataDir, repository } = await onPostgres.copy()
    const healthy = await examine({ dataDir, env })
    assert.deepEqual(healthy.faults, [])
    assert.match(
      healthy.of('database')[0]?.found ?? '',
      /^PostgreSQL at 127\.0\.0\.1:\d+\/svc_\w+, version \d+.*, version \d+; responded in \d+ ms\.$/,
    )
    // The PostgreSQL of the tests forgets what it has committed when the power fails.
    assert.match(healthy.of('database')[1]?.found ?? '', /has fsync off/)
    assert.equal(healthy.of('instance')[0]?.level, 'ok')
    await rm(repository, { recursive: true })
    const lost = await examine({ dataDir, env })
    assert.match(lost.of('repositories')[0]?.found ?? '', /^site has lost its directory/)
    await database.query(
      'update schema_version set version = version + 1, oldest_server = version + 1',
    )
    const newer = await examine({ dataDir, env })
    assert.match(newer.of('database')[0]?.found ?? '', /of a newer svc/)
    assert.equal(newer.code, 1)
  })

  test('creates no tables in an empty database', async () => {
    await using database = await createDatabase({ isEmpty: true })
    const { dataDir } = await patient.copy()
    const { of } = await examine({ dataDir, env: { SVC_DATABASE_URL: database.url } })
    assert.match(of('database')[0]?.found ?? '', /empty; the next start creates its tables/)
    const tables = `select count(*) as count from pg_tables where schemaname = 'public'`
    assert.equal(Number((await database.query(tables)).rows[0].count), 0)
  })

  test('reports a missing database', async () => {
    await using database = await createDatabase()
    const { dataDir } = await patient.copy()
    const { of, code } = await examine({
      dataDir,
      env: { SVC_DATABASE_URL: `${database.url}_elsewhere` },
    })
    assert.match(of('database')[0]?.found ?? '', /cannot be read: database "\w+" does not exist/)
    assert.equal(code, 1)
  })
})

async function createDatabase(options?: { isEmpty: boolean }) {
  const { url, drop } = await createPostgresDatabase(options)
  const client = new pg.Client(url)
  await client.connect()
  return {
    url,
    query: (statement: string) => client.query(statement),
    async [Symbol.asyncDispose]() {
      await client.end()
      await drop()
    },
  }
}

async function assertUnchanged(dataDir: string) {
  const before = await snapshot(dataDir)
  const examined = await examine({ dataDir })
  assert.deepEqual(await snapshot(dataDir), before)
  return examined
}

/** The state of a folder: names, modes, times and contents. */
async function snapshot(folder: string): Promise<string[]> {
  const names = await readdir(folder, { recursive: true })
  const paths = [folder, ...names.sort().map((name) => join(folder, name))]
  return Promise.all(
    paths.map(async (path) => {
      const found = await lstat(path, { bigint: true })
      const content = found.isFile() ? await readFile(path) : ''
      const hash = createHash('sha256').update(content).digest('hex')
      return `${path} ${found.ino} ${found.mode} ${found.uid} ${found.mtimeNs} ${hash}`
    }),
  )
}
