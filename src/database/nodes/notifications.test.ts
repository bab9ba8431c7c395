import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { createLog } from '#base/log.ts'
import { until } from '../../../test/support/condition.ts'
import { createPostgresDatabase } from '../../../test/support/databases.ts'
import { without } from '../../../test/support/programs.ts'
import { connect } from '../database.ts'
import { createNotifications } from './notifications.ts'

const skip = without('postgres')
const log = createLog({ level: 'silent', output: process.stderr })

async function openSite(resources: AsyncDisposableStack) {
  const { url, drop } = await createPostgresDatabase()
  resources.defer(drop)
  const db = connect({ dataDir: '', url, log })
  resources.defer(() => db.destroy())
  return {
    url,
    node(own: string) {
      const notifications = createNotifications({ url, db, own, log })
      resources.use(notifications.listen())
      const received: string[] = []
      notifications.onMessage((message) => received.push(message))
      return { send: notifications.send, received }
    },
  }
}

type Node = { send: (message: string) => void; received: string[] }

/** Sends until it arrives: a node may not listen yet. */
async function arrives(from: Node, to: Node, message: string): Promise<void> {
  await until(`${message} arrives`, () => {
    from.send(message)
    return to.received.includes(message)
  })
}

test('messages reach the other nodes, and not the one that sends them', { skip }, async () => {
  await using resources = new AsyncDisposableStack()
  const site = await openSite(resources)
  const [one, two, three] = [site.node('one'), site.node('two'), site.node('three')]
  await arrives(one, two, 'hello')
  await arrives(one, three, 'hello')
  await arrives(two, one, 'answer')
  assert.ok(!one.received.includes('hello'))
})

test('many messages at once arrive, each once, and long ones are split', { skip }, async () => {
  await using resources = new AsyncDisposableStack()
  const site = await openSite(resources)
  const [one, two] = [site.node('one'), site.node('two')]
  await arrives(one, two, 'first')
  const messages = Array.from({ length: 200 }, (_, number) => `${number}-${'x'.repeat(200)}`)
  for (const message of [...messages, ...messages]) one.send(message)
  await arrives(one, two, 'last')
  assert.deepEqual(
    two.received.filter((message) => message.endsWith('x')),
    messages,
  )
})

test('a node whose connection was cut listens again', { skip }, async () => {
  await using resources = new AsyncDisposableStack()
  const site = await openSite(resources)
  const [one, two] = [site.node('one'), site.node('two')]
  await arrives(one, two, 'before')
  await arrives(two, one, 'before')
  const client = new pg.Client({ connectionString: site.url })
  await client.connect()
  // After a while, the latest query of a connection that listens is the one that keeps it alive.
  const cut = await client.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and query in ('listen svc', 'select 1')`,
  )
  await client.end()
  assert.equal(cut.rowCount, 2)
  await arrives(one, two, 'after')
})

test('what is not a message of svc is ignored', { skip }, async () => {
  await using resources = new AsyncDisposableStack()
  const site = await openSite(resources)
  const [one, two] = [site.node('one'), site.node('two')]
  await arrives(one, two, 'before')
  const client = new pg.Client({ connectionString: site.url })
  await client.connect()
  for (const payload of ['', 'text', '{}', '[1, null]', '[]']) {
    await client.query('select pg_notify($1, $2)', ['svc', payload])
  }
  await client.end()
  await arrives(one, two, 'after')
})
