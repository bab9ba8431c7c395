// Tags: exhaustive
import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { until } from '../support/condition.ts'
import { createProject } from '../support/git.ts'
import { withoutObjectStore } from '../support/object-store.ts'
import { signal } from '../support/processes.ts'
import { without } from '../support/programs.ts'
import { startService } from '../support/service.ts'
import { startStoreSite } from '../support/store-site.ts'

const skip = without('postgres') || withoutObjectStore

test('a node that hangs in the middle of a push delays the others, and does not stop them', {
  skip,
}, async () => {
  await using site = await startStoreSite()
  await using project = await createProject()
  await using other = await startService({ env: site.env })
  await other.admin.post('/repos', { name: 'site' })
  await using blocker = await connect(site.env.SVC_DATABASE_URL ?? '')
  // Another one, since a transaction sees the sessions as they were when it looked first.
  await using observer = await connect(site.env.SVC_DATABASE_URL ?? '')
  const sessions = async (state: string) =>
    (
      await observer.client.query(`select from pg_stat_activity
      where datname = current_database() and query like '%insert into "events"%' and ${state}`)
    ).rowCount
  await blocker.client.query('begin; lock table events in share row exclusive mode')
  await project.git('commit', '--quiet', '--allow-empty', '-m', 'Next')
  const pushed = project.git('push', '--quiet', site.service.admin.remote('site'), 'HEAD:main')
  pushed.catch(() => {})
  await until('its events wait', async () => (await sessions("wait_event_type = 'Lock'")) === 1)
  signal(site.service.pid, 'SIGSTOP')
  await blocker.client.query('rollback')
  await until(
    'it hangs in a transaction that has events',
    async () => (await sessions("state = 'idle in transaction'")) === 1,
  )
  try {
    assert.equal((await other.admin.post('/repos', { name: 'next' })).status, 201)
    await project.git('push', '--quiet', other.admin.remote('next'), 'HEAD:main')
    await project.git('push', '--quiet', other.admin.remote('site'), '+HEAD:other')
  } finally {
    signal(site.service.pid, 'SIGCONT')
  }
})

async function connect(url: string) {
  const client = new pg.Client(url)
  await client.connect()
  return { client, [Symbol.asyncDispose]: () => client.end() }
}
