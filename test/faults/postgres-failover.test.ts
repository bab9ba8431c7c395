// Tags: exhaustive
import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { createCommitPool } from '../support/commit-pool.ts'
import { until } from '../support/condition.ts'
import { examine } from '../support/doctor.ts'
import { git } from '../support/git.ts'
import { createNodesLoad } from '../support/nodes-load.ts'
import { openNodesSite } from '../support/nodes-site.ts'
import { withoutObjectStore } from '../support/object-store.ts'
import { startStandby } from '../support/postgres.ts'
import { without } from '../support/programs.ts'
import { createRandom } from '../support/random.ts'

const skip = without('postgres') || withoutObjectStore
const seed = Number(process.env.SVC_CRASH_SEED ?? Date.now() % 1_000_000)
const clients = 3
const pushesBefore = 15
const repositories = ['site']

test(`a failover to a synchronous standby loses no push, and the doctor warns of others (SVC_CRASH_SEED=${seed})`, {
  skip,
}, async () => {
  await using site = await openNodesSite(2, { hasOwnStorage: false })
  const { postgres, nodes, networks } = site
  const standby = await startStandby(postgres)
  using _standby = { [Symbol.dispose]: () => standby.stop() }
  const warnings = async () => {
    const { results } = await examine({ dataDir: nodes[0]?.dataDir ?? '', env: site.env })
    return results.filter(({ found }) => /standby/.test(found))
  }
  await until('the standby follows', async () =>
    (await query(postgres.url, 'select * from pg_stat_replication')).some(
      ({ state }) => state === 'streaming',
    ),
  )
  assert.match((await warnings())[0]?.found ?? '', /has 1 standby, and commits wait for none/)
  await query(postgres.url, `alter system set synchronous_standby_names = 'ANY 1 (*)'`)
  await query(postgres.url, 'select pg_reload_conf()')
  assert.deepEqual(await warnings(), [])

  await using commits = await createCommitPool(2000)
  await nodes[0]?.admin.post('/repos', { name: 'site' })
  const load = createNodesLoad({ random: createRandom(seed), commits, nodes, repositories })
  const running = load.run(clients)
  running.catch(() => {})
  await until('pushes are acknowledged', () => load.counts.acknowledged >= pushesBefore)
  postgres.halt()
  standby.promote()
  for (const network of networks) network.postgres.redirect(Number(new URL(standby.url).port))
  const before = load.counts.acknowledged
  await until('the nodes go on', () => load.counts.acknowledged >= before + clients)
  load.end()
  await running
  const { stdout } = await git('/', ['ls-remote', nodes[1]?.admin.remote('site') ?? ''])
  const refs = new Map(stdout.split('\n').map((line) => [line.slice(41), line.slice(0, 40)]))
  for (const { ref, acknowledged, unknown } of load.refs) {
    assert.ok([acknowledged, ...unknown].includes(refs.get(ref)), `${ref} is lost`)
  }
  const { body: events } = (await nodes[0]?.admin.get('/events?limit=1000')) ?? {}
  const pushed = new Set(events.map(({ data }: { data: { after?: string } }) => data.after))
  for (const { after } of load.acknowledged) assert.ok(pushed.has(after), `${after} has no event`)
})

async function query(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}
