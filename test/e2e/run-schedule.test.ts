import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, test } from 'node:test'
import { newTokenString } from '#base/token-string.ts'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { temporaryFolder } from '../support/git.ts'
import { type InProcess, startInProcess } from '../support/in-process.ts'
import { untilLookedAt } from '../support/read-pushes.ts'
import { mustClaim, wholeRun } from '../support/run-by-hand.ts'
import { createClient, startService } from '../support/service.ts'
import { openTables } from '../support/tables.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

let service: InProcess

before(async () => {
  service = await startInProcess()
})

after(() => service[Symbol.asyncDispose]())

const file = '.svc/workflows/ci.yml'
const nightly = (more = '') => `
on:
  schedule:
    - cron: '17 3 * * *'
    - cron: '0 12 * * MON'
      timezone: Europe/Berlin
${more}
jobs: { one: { runs-on: ubuntu-latest, steps: [{ run: true }] } }
`

async function repositoryId(name: string): Promise<string> {
  const row = await service.db
    .selectFrom('repositories')
    .select('id')
    .where('name', '=', name)
    .executeTakeFirstOrThrow()
  return row.id
}

/** The schedules of a repository, once there are as many as expected. */
async function schedulesOf(name: string, count: number) {
  const id = await repositoryId(name)
  const rows = () =>
    service.db
      .selectFrom('schedules')
      .selectAll()
      .where('repositoryId', '=', id)
      .orderBy('cron')
      .execute()
  return until('the schedules are there', async () => {
    const found = await rows()
    return found.length === count && found
  })
}

async function runsOf(name: string) {
  return (await service.admin.get(`/repos/${name}/workflows`)).body
}

test('schedules are those of the current default branch', async () => {
  await pushFiles(service.admin, 'plan', { [file]: nightly() })
  const rows = await schedulesOf('plan', 2)
  assert.deepEqual(
    rows.map(({ cron, timezone }) => [cron, timezone]),
    [
      ['0 12 * * MON', 'Europe/Berlin'],
      ['17 3 * * *', ''],
    ],
  )
  assert.ok(rows.every(({ nextAt }) => nextAt > Date.now()))
  assert.equal(new Date(rows[1]?.nextAt ?? 0).toISOString().slice(11, 16), '03:17')
  await pushFiles(service.admin, 'plan', { [file]: 'steps: [{ run: true }]' }, { branch: 'dev' })
  await pushFiles(service.admin, 'plan', { 'a.txt': 'a' }, { message: 'Change [skip ci]' })
  await untilLookedAt(service.db)
  await schedulesOf('plan', 2)
  await pushFiles(service.admin, 'plan', { [file]: 'steps: [{ run: true }]' })
  await schedulesOf('plan', 0)
})

test('a push by a run ends schedules, and adds none', async () => {
  const { admin, db } = service
  const text = (...times: string[]) => `
permissions: { contents: write }
on: { workflow_dispatch: {}, schedule: [${times.map((cron) => `{ cron: '${cron}' }`).join(', ')}] }
steps: [{ run: true }]
`
  await pushFiles(admin, 'bot', { [file]: text('17 3 * * *', '18 3 * * *') })
  const before = await schedulesOf('bot', 2)
  await admin.patch('/repos/bot', { runTokens: 'write' })
  await admin.post('/repos/bot/workflows', {})
  const run = await mustClaim(admin)
  const job = createClient(service.url, run.plan.identities[0]?.token ?? '')
  const more = {
    [file]: text('* * * * *', '17 3 * * *'),
    '.svc/workflows/more.yml': text('* * * * *'),
  }
  await pushFiles(job, 'bot', more)
  await untilLookedAt(db)
  // It stays the schedule of the user.
  assert.deepEqual(await schedulesOf('bot', 1), [before[0]])
  await run.report(...wholeRun())
  await pushFiles(admin, 'bot', { 'a.txt': 'a' })
  const times = (await schedulesOf('bot', 3)).map(({ cron }) => cron)
  assert.deepEqual(times, ['* * * * *', '* * * * *', '17 3 * * *'])
  await admin.delete('/repos/bot')
})

test(
  'a due schedule starts once, at the tip of the default branch, however late',
  exhaustive,
  async () => {
    await pushFiles(service.admin, 'due', { [file]: nightly() })
    await pushFiles(service.admin, 'broken', { [file]: nightly() })
    await pushFiles(service.admin, 'bare', { [file]: nightly() })
    for (const name of ['due', 'broken', 'bare']) await schedulesOf(name, 2)
    const tip = await pushFiles(service.admin, 'due', { 'a.txt': 'a' })
    await untilLookedAt(service.db)
    await service.db
      .updateTable('schedules')
      .set({ nextAt: 1000 })
      .where('cron', '=', '17 3 * * *')
      .execute()
    // What this one names is not in the commit any more.
    await service.db
      .updateTable('schedules')
      .set({ file: '.svc/workflows/gone.yml' })
      .where('repositoryId', '=', await repositoryId('broken'))
      .execute()
    const [run] = await until('it has started', async () => {
      const runs = await runsOf('due')
      return runs.length > 0 && runs
    })
    assert.deepEqual([run.event, run.commit, run.actor], ['schedule', tip, 'admin'])
    const claimed = [await mustClaim(service.admin), await mustClaim(service.admin)]
    const held = claimed.find(({ plan }) => plan.runId === run.id)
    assert.equal(held?.plan.payload.schedule, '17 3 * * *')
    for (const one of claimed) await one.report(...wholeRun())
    const [failed] = await until('it has failed', async () => {
      const runs = await runsOf('broken')
      return runs.length > 0 && runs
    })
    assert.equal(failed.conclusion, 'failure')
    assert.match(failed.fault, /There is no \.svc\/workflows\/gone\.yml/)
    const rows = await schedulesOf('due', 2)
    assert.ok(rows.every(({ nextAt }) => nextAt > Date.now()))
    assert.equal((await runsOf('due')).length, 1)
  },
)

test(
  'a schedule starts nothing while its repository is deleted, and goes on when it is restored',
  exhaustive,
  async () => {
    await pushFiles(service.admin, 'away', { [file]: nightly() })
    await schedulesOf('away', 2)
    const id = await repositoryId('away')
    await service.admin.delete('/repos/away')
    await service.db
      .updateTable('schedules')
      .set({ nextAt: 1000 })
      .where('repositoryId', '=', id)
      .execute()
    await until('its time is over', async () => {
      const rows = await schedulesOf('away', 2)
      return rows.every(({ nextAt }) => nextAt > Date.now())
    })
    assert.equal((await service.admin.post(`/deleted-repos/${id}/restore`)).status, 200)
    assert.deepEqual(await runsOf('away'), [])
  },
)

test('old runs are pruned with all their data, others are not', async () => {
  await using folder = await temporaryFolder()
  const dataDir = join(folder.path, 'data')
  const kept = { dataDir, env: { SVC_ADMIN_TOKEN: newTokenString(), SVC_RUNS_KEPT_DAYS: '7' } }
  const ids: string[] = []
  {
    await using server = await startService(kept)
    await pushFiles(server.admin, 'site', oneStep('true'))
    for (let n = 0; n < 3; n++) {
      ids.push((await server.admin.post('/repos/site/workflows', {})).body.id)
      const held = await mustClaim(server.admin)
      if (n < 2) await held.report(...wholeRun('success', 'words\n'))
    }
    await server.end('SIGTERM')
  }
  {
    using database = openForWriting(dataDir)
    const old = Date.now() - 8 * 24 * 60 * 60 * 1000
    const [first = '', , third = ''] = ids
    database.run('update runs set completed_at = ? where id = ?', old, first)
    // A run that has not completed is not pruned, regardless of its times.
    database.run('update runs set created_at = ?, queued_at = ? where id = ?', old, old, third)
  }
  await using server = await startService(kept)
  await until('it is forgotten', async () => {
    return (await server.admin.get('/repos/site/workflows')).body.length === 2
  })
  const list = (await server.admin.get('/repos/site/workflows')).body
  assert.deepEqual(
    list.map(({ id }: { id: string }) => id),
    [ids[2], ids[1]],
  )
  using tables = openTables(dataDir)
  for (const table of ['run_logs', 'run_steps', 'run_jobs'])
    assert.deepEqual([...new Set(tables.rows(table).map((row) => row.run_id))], [ids[1]], table)
  // Numbers are not given twice.
  assert.equal((await server.admin.post('/repos/site/workflows', {})).body.number, 4)
})

function openForWriting(dataDir: string) {
  const database = new DatabaseSync(join(dataDir, 'svc.db'), { timeout: 5000 })
  return {
    run: (text: string, ...values: (string | number)[]) => database.prepare(text).run(...values),
    [Symbol.dispose]: () => database.close(),
  }
}
