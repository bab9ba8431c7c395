// Tags: exhaustive
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { until } from '../support/condition.ts'
import { createProject, type Project } from '../support/git.ts'
import { openNodesSite } from '../support/nodes-site.ts'
import { withoutObjectStore } from '../support/object-store.ts'
import { without } from '../support/programs.ts'
import type { Service } from '../support/service.ts'

const skip = withoutObjectStore || without('postgres')
const others = ['second', 'third', 'fourth']
const statementTimeoutMs = 180_000

describe('the ids of pushes on three nodes', { skip }, () => {
  let site: Awaited<ReturnType<typeof openNodesSite>>
  let project: Project
  let database: pg.Client

  before(async () => {
    site = await openNodesSite(3, { hasOwnStorage: false, statementTimeoutMs })
    project = await createProject()
    database = await connect()
    for (const name of ['first', ...others]) await admin(0).post('/repos', { name })
  })

  after(async () => {
    await database?.end()
    await project?.[Symbol.asyncDispose]()
    await site?.[Symbol.asyncDispose]()
  })

  const admin = (index: number): Service['admin'] => {
    const node = site.nodes[index]
    assert.ok(node)
    return node.admin
  }

  async function connect(): Promise<pg.Client> {
    const client = new pg.Client(site.postgres.url)
    await client.connect()
    return client
  }

  /** Locks repositories as a push does, until disposed. */
  async function lock(names: string[]): Promise<AsyncDisposable> {
    const client = await connect()
    await client.query('begin')
    await client.query('select from repositories where name = any($1) for update', [names])
    return { [Symbol.asyncDispose]: () => client.end() }
  }

  function push(index: number, name: string, branch: string): Promise<string> {
    const remote = admin(index).remote(name)
    const pushed = project.git('push', '--quiet', remote, `HEAD:refs/heads/${branch}`)
    pushed.catch(() => {})
    return pushed
  }

  async function untilWaiting(count: number): Promise<void> {
    await until(`${count} pushes wait`, async () => {
      const { rows } = await database.query(
        `select from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock'`,
      )
      return rows.length === count
    })
  }

  test('differ when pushes have waited for each other', async () => {
    await using locks = new AsyncDisposableStack()
    const first = locks.use(await lock(['first']))
    const rest = locks.use(await lock(others))
    const ofNode = [push(0, 'first', 'a'), ...others.map((name) => push(0, name, 'a'))]
    await untilWaiting(4)
    const ofOthers = [push(1, 'first', 'b'), push(2, 'first', 'c')]
    await untilWaiting(6)
    // The ids of requests are of the same series as those of pushes.
    await admin(0).get('/repos/first')
    await first[Symbol.asyncDispose]()
    await Promise.all([ofNode[0], ...ofOthers])
    await rest[Symbol.asyncDispose]()
    await Promise.all(ofNode)
    for (const name of others)
      assert.equal((await admin(1).get(`/repos/${name}/pushes`)).body.length, 1)
    const { body: pushes } = await admin(1).get('/repos/first/pushes')
    const ids: string[] = pushes.map(({ id }: { id: string }) => id)
    assert.equal(pushes.at(-1).refs[0].ref, 'refs/heads/a')
    assert.deepEqual(ids, [...ids].sort().reverse())
  })

  test('are made anew when one is taken', async () => {
    await database.query(`
      create sequence attempts;
      create function refuse_first() returns trigger language plpgsql as $$
      begin
        if nextval('attempts') > 1 then return new; end if;
        raise unique_violation using constraint = 'pushes_pkey', table = 'pushes';
      end $$;
      create trigger refuse_first before insert on pushes for each row execute function refuse_first()`)
    await project.commit('more')
    await project.git('push', '--quiet', admin(0).remote('second'), 'HEAD:main')
    const { rows } = await database.query("select nextval('attempts')::integer as next")
    assert.equal(rows[0].next, 3)
    const { body: pushes } = await admin(1).get('/repos/second/pushes')
    assert.equal(pushes.length, 2)
    await database.query('drop function refuse_first cascade; drop sequence attempts')
  })
})
