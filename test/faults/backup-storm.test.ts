// Tags: exhaustive
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { newTokenString } from '#base/token-string.ts'
import { assertAgrees, assertWhole, mustRun, refsIn } from '../support/backups.ts'
import { startSvc } from '../support/command.ts'
import { createCommitPool } from '../support/commit-pool.ts'
import { until } from '../support/condition.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { temporaryFolder } from '../support/git.ts'
import { createOddSource } from '../support/import-sources.ts'
import { createLedger } from '../support/ledger.ts'
import { createLoad, type Session } from '../support/load.ts'
import { without } from '../support/programs.ts'
import { createRandom } from '../support/random.ts'
import { onlyInSoak, toRounds } from '../support/rounds.ts'
import { startService } from '../support/service.ts'

const seed = Number(process.env.SVC_CRASH_SEED ?? Date.now() % 1_000_000)
const backups = toRounds(1)
const commitsPerBackup = 500
const sharedRepositories = 3

type Events = () => Promise<string[]>

test(`a backup under a storm of pushes is a consistent snapshot (SVC_CRASH_SEED=${seed})`, async (t) => {
  await using folder = await temporaryFolder()
  const dataDir = join(folder.path, 'data')
  const events: Events = async () => readEvents(dataDir)
  await storm(t, { folder: folder.path, env: {}, events })
})

test(`a backup of PostgreSQL under a storm of pushes is a consistent snapshot (SVC_CRASH_SEED=${seed})`, {
  skip: without('postgres') || onlyInSoak.skip,
}, async (t) => {
  await using folder = await temporaryFolder()
  const { url, drop } = await createPostgresDatabase()
  const events: Events = async () => {
    const client = new pg.Client(url)
    await client.connect()
    const { rows } = await client.query('select seq, kind, data from events order by seq')
    await client.end()
    return rows.map(({ seq, kind, data }) => `${seq} ${kind} ${data}`)
  }
  await storm(t, { folder: folder.path, env: { SVC_DATABASE_URL: url }, events })
  await drop()
})

type Storm = { folder: string; env: Record<string, string>; events: Events }

async function storm(t: TestContext, { folder, env, events }: Storm): Promise<void> {
  await using commits = await createCommitPool(backups * commitsPerBackup)
  const random = createRandom(seed)
  const ledger = createLedger()
  await using source = await createOddSource()
  const load = createLoad({
    random,
    ledger,
    commits,
    sshCommand: undefined,
    source: source.path,
    mayRecordLater: true,
  })
  const dataDir = join(folder, 'data')
  await using service = await startService({
    dataDir,
    env: { ...env, SVC_ADMIN_TOKEN: newTokenString() },
  })
  const to = join(folder, 'backup')
  for (let round = 0; round < backups; round++) {
    const session: Session = { service, isDying: false, answers: 0 }
    if (round === 0) await load.prepare(session, sharedRepositories)
    const running = load.run(session)
    running.catch(() => {}) // Awaited below.
    await until('clients got answers', () => session.answers >= 10)
    const before = (await events()).length
    // In a process of its own: in this one it would compete with the clients.
    const backup = await startSvc(['backup', to, '--json'], { SVC_DATA_DIR: dataDir, ...env }).ended
    assert.equal(backup.code, 0, backup.err)
    const summary = JSON.parse(backup.out)
    session.isDying = true
    await running
    t.diagnostic(`${session.answers} answers, ${before} events, ${JSON.stringify(summary)}`)
    const restored = join(folder, `restored-${round}`)
    await mustRun(['restore', to], { SVC_DATA_DIR: restored })
    const after = await events()
    const has = readEvents(restored)
    assert.ok(has.length >= before, 'what was there before the backup is in it')
    assert.deepEqual(has, after.slice(0, has.length))
  }
  await assertWhole(to)
  for (let round = 0; round < backups; round++) {
    const restored = join(folder, `restored-${round}`)
    await using again = await startService({
      dataDir: restored,
      env: { SVC_ADMIN_TOKEN: service.adminToken },
    })
    await assertAgrees(again, await refsIn(source.path))
  }
}

function readEvents(dataDir: string): string[] {
  using database = new DatabaseSync(join(dataDir, 'svc.db'), { readOnly: true, timeout: 5000 })
  const rows = database.prepare('select seq, kind, data from events order by seq').all()
  return rows.map(({ seq, kind, data }) => `${seq} ${kind} ${data}`)
}
