import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { newId } from '#base/ids.ts'
import type { Database } from '#database/database.ts'
import type { RunRow } from '#database/schema.ts'
import { insertRepository } from '#repositories/repository-store.ts'
import { onEachDatabase } from '../../test/support/databases.ts'
import {
  endJobsAndSteps,
  insertJob,
  insertStep,
  listJobs,
  listNamedJobs,
  listSteps,
  measureSteps,
  updateJob,
  updateStep,
} from './run-job-store.ts'
import { insertLog, listLog } from './run-log-store.ts'
import {
  countQueued,
  countUnfinished,
  deleteOldRuns,
  findLastGreen,
  findRun,
  findRunByToken,
  insertAttempt,
  insertRun,
  listGroups,
  listInGroups,
  listOverdue,
  listRunAttempts,
  listRunningOf,
  listRuns,
  listUnfinished,
  lockRuns,
  type NewRun,
  takeNumber,
  updateRun,
} from './run-store.ts'
import { listDue, replaceSchedules, reschedule } from './schedule-store.ts'
import { readOutputs, readTail } from './views/run-outputs.ts'

onEachDatabase((fresh, engine) => {
  test('runs are numbered, found, listed newest first, and changed only in the expected state', async () => {
    await using database = await fresh()
    const db = await database.open()
    const repositoryId = await addRepository(db)
    assert.deepEqual(
      [await takeNumber(db, repositoryId), await takeNumber(db, repositoryId)],
      [1, 2],
    )
    await lockRuns(db, repositoryId)
    assert.equal(await takeNumber(db, repositoryId), 3)
    const rows = [1, 2, 3].map((number) =>
      runRow(repositoryId, { number, branch: `b${number % 2}` }),
    )
    for (const row of rows) await insertRun(db, row, [])
    const ids = rows.map(({ id }) => id)
    const list = async (more: object) => {
      const found = await listRuns(db, repositoryId, { before: '', limit: 10, ...more })
      return found.map(({ id }) => ids.indexOf(id))
    }
    assert.deepEqual(await list({}), [2, 1, 0])
    assert.deepEqual(await list({ limit: 1 }), [2])
    assert.deepEqual(await list({ before: ids[1] }), [0])
    assert.deepEqual(await list({ branch: 'b1' }), [2, 0])
    const [first = ''] = ids
    const changed = await updateRun(db, { id: first, status: 'queued' }, { status: 'running' })
    assert.equal(changed?.status, 'running')
    assert.equal(await updateRun(db, { id: first, status: 'queued' }, { losses: 9 }), undefined)
    const wrong = { id: first, status: 'running', attempt: 2 } as const
    assert.equal(await updateRun(db, wrong, { losses: 9 }), undefined)
    assert.deepEqual(await list({ status: 'running' }), [0])
    assert.equal((await findRun(db, repositoryId, first))?.losses, 0)
    assert.equal(await findRun(db, 'other', first), undefined)
    assert.equal(await countQueued(db, repositoryId), 2)
    assert.deepEqual(
      new Map((await countUnfinished(db)).map(({ status, count }) => [status, Number(count)])),
      new Map([
        ['queued', 2],
        ['running', 1],
      ]),
    )
    assert.deepEqual(
      (await listUnfinished(db)).map(({ id }) => ids.indexOf(id)),
      [0, 1, 2],
    )
    assert.deepEqual(await listUnfinished(db, 'other'), [])
  })

  test('a run that was queued again is not pruned', {
    skip: engine === 'sqlite' && 'it has one writer at a time',
  }, async () => {
    await using database = await fresh()
    const [db, other] = [await database.open(), await database.open()]
    const repositoryId = await addRepository(db)
    const old = { status: 'completed', completedAt: 1 } as const
    const [again, gone] = [runRow(repositoryId, { number: 1, ...old }), runRow(repositoryId, old)]
    await insertRun(db, again, [])
    await insertRun(db, { ...gone, number: 2 }, [])
    await other.transaction().execute(async (tx) => {
      await updateRun(tx, { id: again.id, status: 'completed' }, { status: 'queued' })
      assert.equal(await deleteOldRuns(db, 2, 10), 1)
    })
    assert.deepEqual(
      (await listUnfinished(db)).map(({ id }) => id),
      [again.id],
    )
  })

  test('times and counts beyond 32 bits are stored as numbers', async () => {
    await using database = await fresh()
    const db = await database.open()
    const repositoryId = await addRepository(db)
    const large = { createdAt: 1_795_184_328_814, logBytes: 5_000_000_000 }
    const row = runRow(repositoryId, large)
    await insertRun(db, row, [])
    const found = await findRun(db, repositoryId, row.id)
    assert.deepEqual([found?.createdAt, found?.logBytes], [large.createdAt, large.logBytes])
  })

  test('runs are found by groups, tokens, runners and leases', async () => {
    await using database = await fresh()
    const db = await database.open()
    const repositoryId = await addRepository(db)
    const running = runRow(repositoryId, {
      number: 1,
      status: 'running',
      runner: 'den',
      tokenHash: 'hash',
      leaseUntil: 100,
      startedAt: 50,
    })
    const waiting = runRow(repositoryId, { number: 2 })
    await insertRun(db, running, ['a', 'b'])
    await insertRun(db, waiting, ['b'])
    assert.deepEqual((await listGroups(db, running.id)).sort(), ['a', 'b'])
    const inGroups = (groups: string[], status: RunRow['status']) =>
      listInGroups(db, { repositoryId, groups, status })
    assert.deepEqual(await inGroups(['a', 'b'], 'running'), [running.id])
    assert.deepEqual(await inGroups(['b', 'c'], 'queued'), [waiting.id])
    assert.deepEqual(await inGroups(['a'], 'queued'), [])
    assert.deepEqual(await inGroups([], 'queued'), [])
    assert.deepEqual(await findRunByToken(db, 'hash'), { id: running.id })
    assert.deepEqual(
      (await listRunningOf(db, 'den')).map(({ id }) => id),
      [running.id],
    )
    const overdue = async (times: Partial<Parameters<typeof listOverdue>[1]>) =>
      (await listOverdue(db, { now: 0, cancelledBefore: 0, startedBefore: 0, ...times })).length
    assert.deepEqual(
      [await overdue({}), await overdue({ now: 100 }), await overdue({ now: 101 })],
      [0, 0, 1],
    )
    assert.equal(await overdue({ startedBefore: 51 }), 1)
    await updateRun(db, { id: running.id, status: 'running' }, { cancelledAt: 10 })
    assert.equal(await overdue({ cancelledBefore: 11 }), 1)
    await updateRun(db, { id: running.id, status: 'running' }, { status: 'completed' })
    assert.equal(await findRunByToken(db, 'hash'), undefined)
  })

  test('the last successful run is found, and old runs are pruned', async () => {
    await using database = await fresh()
    const db = await database.open()
    const repositoryId = await addRepository(db)
    const ended = (number: number, more: Partial<NewRun> = {}) =>
      runRow(repositoryId, {
        number,
        status: 'completed',
        conclusion: 'success',
        completedAt: number * 100,
        ...more,
      })
    // As if another server, whose clock is behind, had made it.
    const last = ended(6, { conclusion: 'failure' })
    const rows = [
      ended(1),
      ended(2),
      ended(3, { conclusion: 'failure' }),
      ended(4, { branch: 'dev' }),
      ended(5, { files: '["other"]' }),
      last,
    ]
    for (const row of rows) await insertRun(db, row, ['group'])
    const failed = await findRun(db, repositoryId, rows[5]?.id ?? '')
    assert.ok(failed)
    assert.equal((await findLastGreen(db, failed))?.number, 2)
    const first = rows[0]?.id ?? ''
    const attempt = {
      actorUsername: 'ada',
      conclusion: 'failure',
      fault: '',
      isolation: '',
    } as const
    const times = { startedAt: null, completedAt: 5, logBytes: 5_000_000_000 }
    await insertAttempt(db, { runId: first, attempt: 1, ...attempt, ...times })
    assert.equal((await listRunAttempts(db, first))[0]?.logBytes, 5_000_000_000)
    assert.equal(await deleteOldRuns(db, 401, 3), 3)
    assert.equal(await deleteOldRuns(db, 401, 3), 1)
    assert.equal(await deleteOldRuns(db, 401, 3), 0)
    assert.deepEqual(await listRunAttempts(db, first), [])
    assert.equal((await listRuns(db, repositoryId, { before: '', limit: 9 })).length, 2)
  })

  test('jobs and steps are stored by attempt, also for lists of very many runs', async () => {
    await using database = await fresh()
    const db = await database.open()
    const repositoryId = await addRepository(db)
    const of: { runId: string; attempt: number }[] = []
    for (let number = 0; number < 1001; number++) {
      const run = runRow(repositoryId, { number })
      await insertRun(db, run, [])
      of.push({ runId: run.id, attempt: 1 })
    }
    const last = of.at(-1) ?? assert.fail()
    await insertJob(db, { ...last, job: 0, ...jobRow })
    await insertStep(db, { ...last, job: 0, step: 0, ...stepRow, summary: 'größe', tail: 'abcdef' })
    await insertStep(db, { ...last, job: 0, step: 1, ...stepRow })
    await updateJob(db, { ...last, job: 0 }, { outputs: '{"a":"1"}', status: 'running' })
    await updateStep(db, { ...last, step: 0 }, { exitCode: 3 })
    assert.equal((await listJobs(db, last))[0]?.outputs, '{"a":"1"}')
    assert.equal((await listNamedJobs(db, of)).length, 1)
    const lengths = { tailLength: 4, summaryLength: 3 }
    const [first, second] = await listSteps(db, of, lengths)
    assert.deepEqual([first?.tail, first?.summary, first?.exitCode], ['cdef', 'grö', 3])
    assert.deepEqual([second?.tail, second?.summary], ['', ''])
    const [whole] = await listSteps(db, [last], { tailLength: 6, summaryLength: 99 })
    assert.deepEqual([whole?.tail, whole?.summary], ['abcdef', 'größe'])
    const [none] = await listSteps(db, [last], { tailLength: 0, summaryLength: 0 })
    assert.deepEqual([none?.tail, none?.summary], ['', ''])
    const [measured] = await measureSteps(db, of)
    assert.deepEqual([Number(measured?.steps), Number(measured?.summaries)], [2, 5])
    assert.deepEqual(await listSteps(db, [], lengths), [])
    await endJobsAndSteps(db, last, { conclusion: 'cancelled', at: 9 })
    const steps = await listSteps(db, [last], lengths)
    assert.ok(
      steps.every(({ conclusion, completedAt }) => conclusion === 'cancelled' && completedAt === 9),
    )
  })

  test('logs are read from any offset, and outputs by step', async () => {
    await using database = await fresh()
    const db = await database.open()
    const run = runRow(await addRepository(db), {})
    await insertRun(db, run, [])
    const log = { runId: run.id, attempt: 1 }
    const base = 4_294_967_296
    const words = ['zero', 'ones', 'twos']
    for (const [at, text] of words.entries())
      await insertLog(db, { ...log, start: base + at * 4, size: 4, step: at % 2, prefix: '', text })
    await insertLog(db, { ...log, start: base + 12, size: 4, step: null, prefix: '', text: 'none' })
    const from = async (offset: number, limit = 9) =>
      (await listLog(db, { ...log, from: base + offset, limit })).map(({ text }) => text)
    assert.deepEqual(await from(-5), ['zero', 'ones', 'twos', 'none'])
    assert.deepEqual(await from(0, 2), ['zero', 'ones'])
    assert.deepEqual(await from(3), ['zero', 'ones', 'twos', 'none'])
    assert.deepEqual(await from(4), ['ones', 'twos', 'none'])
    assert.deepEqual(await from(15), ['none'])
    assert.deepEqual(await from(16), [])
    const outputs = [
      [0, 'zerotwos'],
      [1, 'ones'],
    ] as const
    assert.deepEqual(
      await readOutputs(db, log, { maxLength: 100, logBytes: Number.POSITIVE_INFINITY }),
      new Map(outputs),
    )
    assert.deepEqual(
      await readOutputs(
        db,
        { ...log, attempt: 2 },
        { maxLength: 100, logBytes: Number.POSITIVE_INFINITY },
      ),
      new Map(),
    )
    assert.equal(await readTail(db, log, 0, 3), 'wos')
  })

  test('outputs that are too long for a response are reduced to the end of each step', async () => {
    await using database = await fresh()
    const db = await database.open()
    const run = runRow(await addRepository(db), {})
    await insertRun(db, run, [])
    const log = { runId: run.id, attempt: 1 }
    for (let n = 0; n < 200; n++) {
      const text = `${n} ${'ü'.repeat(500)}\n`
      await insertLog(db, { ...log, start: n * 2000, size: 2000, step: n % 2, prefix: '', text })
    }
    const outputs = await readOutputs(db, log, {
      maxLength: 20_000,
      logBytes: Number.POSITIVE_INFINITY,
    })
    assert.deepEqual(
      [...outputs.values()].map((text) => text.length),
      [10_000, 10_000],
    )
    assert.ok(outputs.get(1)?.endsWith(`\n199 ${'ü'.repeat(500)}\n`))
  })

  test('schedules are replaced, due in order, and rescheduled once', async () => {
    await using database = await fresh()
    const db = await database.open()
    const repositoryId = await addRepository(db)
    const row = {
      repositoryId,
      file: 'a',
      cron: 'x',
      timezone: '',
      actorId: 'a',
      actorUsername: 'a',
    }
    const [late, early] = [
      { ...row, nextAt: 1_795_184_328_814 },
      { ...row, cron: 'y', nextAt: 100 },
    ]
    await replaceSchedules(db, repositoryId, [{ ...row, cron: 'old', nextAt: 1 }])
    await replaceSchedules(db, repositoryId, [late, early])
    assert.deepEqual(await listDue(db, 99, 9), [])
    assert.deepEqual(await listDue(db, late.nextAt, 9), [early, late])
    assert.deepEqual(await listDue(db, late.nextAt, 1), [early])
    assert.deepEqual(
      [await reschedule(db, early, 200), await reschedule(db, early, 300)],
      [true, false],
    )
    assert.deepEqual(await listDue(db, 200, 9), [{ ...early, nextAt: 200 }])
    await replaceSchedules(db, repositoryId, [])
    assert.deepEqual(await listDue(db, late.nextAt, 9), [])
  })

  test('a deleted repository leaves no runs', async () => {
    await using database = await fresh()
    const db = await database.open()
    const repositoryId = await addRepository(db)
    await takeNumber(db, repositoryId)
    await insertRun(db, runRow(repositoryId, {}), ['group'])
    await db.deleteFrom('repositories').where('id', '=', repositoryId).execute()
    for (const table of ['runs', 'runGroups', 'runNumbers'] as const)
      assert.deepEqual(await db.selectFrom(table).selectAll().execute(), [], table)
  })

  if (engine === 'sqlite')
    test('frequent queries use an index', async () => {
      await using database = await fresh()
      const db = await database.open()
      const plan = async (query: string) => {
        const { rows } = await sql
          .raw<{ detail: string }>(`explain query plan ${query}`)
          .execute(db)
        return rows.map(({ detail }) => detail).join('\n')
      }
      for (const query of [
        'select id from runs where repository_id = ? and id < ? order by id desc limit 9',
        'select id from runs where status = ? and lease_until < ?',
        'select count(*) from runs where repository_id = ? and status = ?',
        'select id from runs where status in (?, ?)',
        'select id from runs where status = ? and completed_at < ? order by completed_at limit 9',
        'select status, count(*) from runs where status in (?, ?) group by status',
        'select start from run_logs where run_id = ? and attempt = ? and start <= ? order by start desc limit 1',
      ]) {
        const found = await plan(query)
        assert.doesNotMatch(found, /SCAN|TEMP B-TREE/, `${query}: ${found}`)
      }
    })
})

async function addRepository(db: Database): Promise<string> {
  const id = newId()
  await insertRepository(db, {
    id,
    name: id,
    nameKey: id,
    ownerTokenId: 'token',
    ownerUsername: 'ada',
    state: 'ready',
    createdAt: 1,
  })
  return id
}

function runRow(repositoryId: string, more: Partial<NewRun>): NewRun {
  return {
    id: newId(),
    repositoryId,
    number: 1,
    name: 'ci',
    branch: 'main',
    ref: 'refs/heads/main',
    commitId: 'c'.repeat(40),
    event: 'push',
    payload: '{}',
    inputs: '{}',
    files: '[]',
    sources: '{}',
    labels: '[]',
    secretNames: null,
    actorId: 'token',
    actorUsername: 'ada',
    status: 'queued',
    conclusion: null,
    createdAt: 1,
    queuedAt: 1,
    startedAt: null,
    completedAt: null,
    cancelReason: null,
    cancelledAt: null,
    tokenHash: null,
    ...more,
  }
}

const waiting = {
  status: 'queued',
  conclusion: null,
  fault: '',
  startedAt: null,
  completedAt: null,
} as const
const jobRow = {
  file: 'a',
  workflow: 'a',
  jobId: 'a',
  name: 'a',
  matrix: '',
  outputs: '{}',
  tolerated: 0,
  ...waiting,
}
const stepRow = { name: 'a', exitCode: null, summary: '', tail: '', ...waiting }
