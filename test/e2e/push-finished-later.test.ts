// Tags: exhaustive
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, test } from 'node:test'
import pg from 'pg'
import { newTokenString } from '#base/token-string.ts'
import { until } from '../support/condition.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { createProject, git, type Project, temporaryFolder } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { openPushRecords } from '../support/push-records.ts'
import { type Service, startService } from '../support/service.ts'

// The sweep comes a minute after the start. `until` gives up long before, so what comes does so without it.
const later = /push not finalized; retrying/

let project: Project

before(async () => {
  project = await createProject()
})

after(() => project[Symbol.asyncDispose]())

test('an acknowledged push that could not be finalized is finalized as soon as possible', async () => {
  await using service = await startService()
  await service.admin.post('/repos', { name: 'site' })
  using records = openPushRecords(service.dataDir)
  refuse(service.dataDir)
  // Its refs have moved, so it is not a failure: the client gets a note.
  assert.match(
    await push(service),
    /^remote: The push is stored\. Its events and deliveries follow/m,
  )
  await until('a try after the first one has failed', () =>
    /pushes not finalized; retrying/.test(service.log()),
  )
  assert.match(service.log(), later)
  assert.deepEqual(records.eventsAfter(0).pushes, [])
  allow(service.dataDir)
  const recorded = await until('the push has its events', () => {
    const { pushes } = records.eventsAfter(0)
    return pushes.length > 0 && pushes
  })
  assert.deepEqual(
    recorded.map(({ ref }) => ref),
    ['refs/heads/main'],
  )
  assert.deepEqual(records.unfinished(), [])
})

test('an undo that could not be finalized says so, and is finalized later', async () => {
  await using service = await startService()
  await service.admin.post('/repos', { name: 'site' })
  await push(service)
  const { body: pushes } = await service.admin.get('/repos/site/pushes')
  refuse(service.dataDir)
  const { status, body } = await service.admin.post(`/repos/site/pushes/${pushes[0].id}/undo`)
  assert.deepEqual([status, body.code], [503, 'database_unavailable'])
  assert.match(body.detail, /^The push is undone\./)
  allow(service.dataDir)
  await until('the undo is in the journal', async () => {
    const { body: listed } = await service.admin.get('/repos/site/pushes')
    return listed[0].undoes === pushes[0].id
  })
})

test('a server that cannot finalize a push stops all the same, and the next one finalizes it', async () => {
  await using folder = await temporaryFolder()
  const env = { SVC_ADMIN_TOKEN: newTokenString() }
  const place = { dataDir: join(folder.path, 'data'), env }
  {
    await using service = await startService(place)
    await service.admin.post('/repos', { name: 'site' })
    refuse(service.dataDir)
    await push(service)
    await until('it was tried', () => later.test(service.log()))
    assert.equal(await service.end('SIGTERM'), 0)
    assert.doesNotMatch(service.log(), /destroyed|closed|is not open/)
  }
  allow(place.dataDir)
  await using service = await startService(place)
  using records = openPushRecords(service.dataDir)
  assert.equal(records.eventsAfter(0).pushes.length, 1)
})

test('a push whose database connections broke during finalization is finalized automatically', {
  skip: without('postgres'),
}, async () => {
  const { url, drop } = await createPostgresDatabase()
  {
    await using service = await startService({ env: { SVC_DATABASE_URL: url } })
    await service.admin.post('/repos', { name: 'site' })
    const blocker = new pg.Client(url)
    await blocker.connect()
    // A connection that is left open would keep the tests from ending.
    await using _ended = { [Symbol.asyncDispose]: () => blocker.end() }
    const count = async (query: string) => Number((await blocker.query(query)).rows[0].count)
    await blocker.query('begin')
    await blocker.query('lock table events in access exclusive mode')
    const pushed = push(service)
    await until('it waits for the lock, and is ended', () =>
      count(
        `select count(pg_terminate_backend(pid)) from pg_stat_activity
            where datname = current_database() and wait_event_type = 'Lock'`,
      ).then((ended) => ended > 0 && later.test(service.log())),
    )
    assert.match(await pushed, /^remote: The push is stored\./m)
    await blocker.query('commit')
    await until(
      'the push has its events',
      async () => (await count(`select count(*) from events where kind = 'push'`)) === 1,
    )
    assert.equal(await count('select count(*) from pushes where finished_at is null'), 0)
  }
  await drop()
})

/** What git says on the terminal. */
async function push({ admin }: Service): Promise<string> {
  const args = ['push', '--quiet', admin.remote('site'), 'main']
  return (await git(project.path, args)).stderr
}

/** Has the database refuse to finish pushes, as a full disk would. */
function refuse(dataDir: string): void {
  using database = open(dataDir)
  database.exec(
    `create trigger refused before update of finished_at on pushes begin
      select raise(abort, 'refused for a moment'); end`,
  )
}

function allow(dataDir: string): void {
  using database = open(dataDir)
  database.exec('drop trigger refused')
}

function open(dataDir: string): DatabaseSync {
  return new DatabaseSync(join(dataDir, 'svc.db'), { timeout: 5000 })
}
