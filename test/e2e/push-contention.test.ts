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
import type { Client } from '../support/service.ts'

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
  const { locker, observer } = await connectTwo(site.postgres.url, clients)
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

test('a push that waits is refused when its rights are revoked meanwhile', { skip }, async () => {
  await using site = await openNodesSite(1, { hasOwnStorage: false, statementTimeoutMs })
  await using project = await createProject()
  const [node] = site.nodes
  assert.ok(node)
  const { admin } = node
  const revocations: Record<string, (username: string, tokenId: string) => Promise<unknown>> = {
    kept: async () => ({}),
    uninvited: (username) => admin.delete(`/repos/uninvited/collaborators/${username}`),
    tokenless: (_, tokenId) => admin.delete(`/tokens/${tokenId}`),
    protected: () => admin.put('/repos/protected/protections/branches/main'),
  }
  const names = Object.keys(revocations)
  await using clients = new AsyncDisposableStack()
  const { locker, observer } = await connectTwo(site.postgres.url, clients)
  const users = new Map<string, Client>()
  for (const name of names) {
    await admin.post('/repos', { name })
    const user = await node.client({ username: name })
    await admin.post(`/repos/${name}/collaborators`, { username: name })
    users.set(name, user)
  }
  await locker.query('begin')
  // The weakest lock that pushes wait for.
  await locker.query('select from repositories for no key update')
  const pushes = [...users].map(([name, user]) =>
    project.git('push', '--quiet', user.remote(name), 'HEAD:main').then(
      () => 'ok',
      (error) => String(error),
    ),
  )
  await until('all have waited for longer than they are authorized', async () => {
    const { rows } = await observer.query(
      `select from pg_stat_activity where datname = current_database()
        and wait_event_type = 'Lock' and clock_timestamp() - query_start > interval '2 seconds'`,
    )
    return rows.length === names.length
  })
  for (const [name, user] of users) await revocations[name]?.(name, user.id)
  await locker.query('commit')
  const [kept, uninvited, tokenless, protectedOne] = await Promise.all(pushes)
  assert.equal(kept, 'ok')
  assert.match(uninvited ?? '', /not yours to see/)
  assert.match(tokenless ?? '', /The token or key was deleted/)
  assert.match(protectedOne ?? '', /The branch "main" is protected/)
  for (const name of names) {
    const { body } = await admin.get(`/repos/${name}/branches`)
    assert.equal(body.length, name === 'kept' ? 1 : 0, name)
  }
})

/** Connects twice: a transaction sees the activity of its first look. */
async function connectTwo(url: string, clients: AsyncDisposableStack) {
  const connect = async () => {
    const client = new pg.Client(url)
    await client.connect()
    clients.defer(() => client.end())
    return client
  }
  return { locker: await connect(), observer: await connect() }
}
