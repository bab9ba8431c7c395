// Tags: exhaustive
import assert from 'node:assert/strict'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import pg from 'pg'
import { until } from '../support/condition.ts'
import { createProject } from '../support/git.ts'
import { openNodesSite } from '../support/nodes-site.ts'
import { withoutObjectStore } from '../support/object-store.ts'
import { without } from '../support/programs.ts'

const skip = withoutObjectStore || without('postgres')
// More than a node has connections to PostgreSQL.
const count = 12
const statementTimeoutMs = 180_000

test('reads and pushes of other repositories go on while many wait for one', { skip }, async () => {
  await using site = await openNodesSite(1, { hasOwnStorage: false, statementTimeoutMs })
  await using project = await createProject()
  const [node] = site.nodes
  assert.ok(node)
  const { admin } = node
  for (const name of ['busy', 'quiet']) await admin.post('/repos', { name })
  await project.git('push', '--quiet', admin.remote('busy'), 'HEAD:main')
  const { path } = (await admin.get('/repos/busy')).body
  const grace = await node.client({ username: 'grace' })
  await admin.post('/repos/busy/collaborators', { username: 'grace' })
  await project.commit('more')

  async function assertReads(): Promise<void> {
    for (const path of ['/health', '/repos', '/repos/busy', '/repos/quiet/branches', '/keys'])
      assert.equal((await admin.get(path)).status, 200, path)
    await project.git('ls-remote', admin.remote('busy'))
  }

  await using clients = new AsyncDisposableStack()
  const connect = async () => {
    const client = new pg.Client(site.postgres.url)
    await client.connect()
    clients.defer(() => client.end())
    return client
  }
  // A transaction sees the activity of its first look.
  const [locker, observer] = [await connect(), await connect()]
  await locker.query('begin')
  await locker.query("select from repositories where name = 'busy' for update")
  const pushes = Array.from({ length: count }, (_, number) =>
    project.git('push', '--quiet', grace.remote('busy'), `HEAD:refs/heads/${number}`),
  )
  for (const push of pushes) push.catch(() => {})
  await until('all objects have arrived', async () => {
    const names = await readdir(join(path, 'objects'))
    return names.filter((name) => name.startsWith('tmp_objdir-')).length === count
  })
  await assertReads()
  await project.git('push', '--quiet', admin.remote('quiet'), 'HEAD:main')

  const changes = Array.from({ length: count }, () =>
    admin.patch('/repos/busy', { description: 'changed' }),
  )
  for (const change of changes) change.catch(() => {})
  await until('a change waits', async () => {
    const { rows } = await observer.query(
      `select from pg_stat_activity where datname = current_database()
        and wait_event_type = 'Lock' and query like '%leak_guard%'`,
    )
    return rows.length > 0
  })
  await assertReads()
  const first = await Promise.race(changes)
  assert.equal(first.status, 503, first.text)
  assert.match(first.text, /The database is busy with other requests/)
  await locker.query('commit')
  for (const { status, text } of await Promise.all(changes)) {
    if (status !== 503) assert.equal(status, 200, text)
  }
  await Promise.all(pushes)
})
