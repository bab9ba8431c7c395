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
  await until('it hangs in a transaction that has events', async () => {
    await project.git('commit', '--quiet', '--allow-empty', '-m', 'Next')
    const ended = project
      .git('push', '--quiet', site.service.admin.remote('site'), 'HEAD:main')
      .then(
        () => true,
        () => true,
      )
    while (!(await Promise.race([ended, isInTransaction(site.env.SVC_DATABASE_URL ?? '')]))) {}
    signal(site.service.pid, 'SIGSTOP')
    if (await isInTransaction(site.env.SVC_DATABASE_URL ?? '')) return true
    signal(site.service.pid, 'SIGCONT')
    await ended
    return false
  })
  try {
    assert.equal((await other.admin.post('/repos', { name: 'next' })).status, 201)
    await project.git('push', '--quiet', other.admin.remote('next'), 'HEAD:main')
    await project.git('push', '--quiet', other.admin.remote('site'), '+HEAD:other')
  } finally {
    signal(site.service.pid, 'SIGCONT')
  }
})

/** Whether a session waits for its client in a transaction after it has published events, which locks their counter. */
async function isInTransaction(url: string): Promise<boolean> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    const { rows } = await client.query(
      `select pid from pg_stat_activity where datname = current_database()
        and state = 'idle in transaction' and query ~ '(events|webhooks|pushes)'`,
    )
    return rows.length > 0
  } finally {
    await client.end()
  }
}
