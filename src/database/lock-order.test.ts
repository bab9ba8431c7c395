// Tags: exhaustive
import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { newId } from '#base/ids.ts'
import { createPublish } from '#events/events.ts'
import { endForeignLogins, newLogin } from '#identity/logins/people.ts'
import { until } from '../../test/support/condition.ts'
import { createPostgresDatabase } from '../../test/support/databases.ts'
import { type InProcess, startInProcess } from '../../test/support/in-process.ts'
import { without } from '../../test/support/programs.ts'
import { mustClaim } from '../../test/support/run-by-hand.ts'
import type { Client } from '../../test/support/service.ts'
import { pushFiles } from '../../test/support/workflow-site.ts'

type Site = InProcess & { repositoryId: string }

type Case<T> = {
  /** What the service does. */
  name: string
  arrange?: (site: Site) => Promise<T>
  act: (site: Site, arranged: T) => Promise<unknown>
  /** What another transaction has locked by then, which does one thing more when the service waits for it. */
  locks: (arranged: T) => string
  /** The beginning of the statement that waits. */
  waits: string
  after: string
}

const counter = `update marks set value = value where name = 'events'`
const theSite = `(select id from repositories where name_key = 'site')`
const lockSite = `select 1 from repositories where name_key = 'site' for update`

const workflow = (more: string) => ({
  '.svc/workflows/ci.yml': `${more}\njobs: { one: { runs-on: ubuntu-latest, steps: [{ run: true }] } }\n`,
})
const latestAlone = workflow(
  'on: workflow_dispatch\nconcurrency: { group: one, cancel-in-progress: true }',
)
const nightly = (hour: number) =>
  workflow(`on: { push: {}, schedule: [{ cron: '0 ${hour} * * *' }] }`)

const startRun = async (admin: Client): Promise<string> =>
  (await admin.post('/repos/site/workflows', {})).body.id

async function queueRun({ admin }: { admin: Client }): Promise<void> {
  await pushFiles(admin, 'site', latestAlone)
  await startRun(admin)
}

const cases = [
  // Renaming locks the repository and then the counter of events.
  of({
    name: 'makes a webhook of a repository that is being renamed',
    act: async ({ admin }) =>
      assertStatus(
        admin.post('/repos/site/webhooks', { url: 'http://127.0.0.1:9/', events: ['push'] }),
        201,
      ),
    locks: () => lockSite,
    waits: 'select "id" from "repositories"',
    after: counter,
  }),
  // A runner that reports the end of its run has that, and then the counter.
  of({
    name: 'has a new run take the place of one that waits and of one that runs',
    arrange: async ({ admin }) => {
      await pushFiles(admin, 'site', latestAlone)
      const running = await startRun(admin)
      await mustClaim(admin)
      await startRun(admin)
      return running
    },
    act: ({ admin }) => startRun(admin).then(assert.ok),
    locks: (running) => `select 1 from runs where id = '${running}' for update`,
    waits: 'update "runs"',
    after: counter,
  }),
  // A deletion has the repository, and then all that goes with it.
  of({
    name: 'starts a run in a repository that is being deleted',
    arrange: queueRun,
    act: ({ admin }) => startRun(admin).then(assert.ok),
    locks: () => lockSite,
    waits: '',
    after: `select 1 from run_numbers where repository_id = ${theSite} for update`,
  }),
  of({
    name: 'gives a run of a repository that is being deleted to a runner',
    arrange: queueRun,
    act: async ({ admin }) => void (await mustClaim(admin)),
    locks: () => `with site as (${lockSite}) select 1 from site, runs for update of runs`,
    waits: '',
    after: `select 1 from run_numbers where repository_id = ${theSite} for update`,
  }),
  // Starting a due schedule locks the schedule first.
  of({
    name: 'looks at a push for workflows while a schedule is due',
    arrange: async (site) => {
      await pushFiles(site.admin, 'site', nightly(1))
      await until('it is looked at', async () => (await runsOf(site)) === 1)
    },
    act: async (site) => {
      await pushFiles(site.admin, 'site', nightly(2))
      await until('it is looked at', async () => (await runsOf(site)) === 2)
    },
    locks: () => 'select 1 from schedules for update',
    waits: 'delete from "schedules"',
    after: counter,
  }),
  // Creating a repository locks its name, and then failed imports.
  of({
    name: 'imports a repository whose name is just being taken',
    arrange: async ({ db, repositoryId }) => {
      const about = {
        phase: 'counting',
        progress: 0,
        source: '',
        startedAt: 1,
        endedAt: Date.now(),
        node: '',
      }
      const name = { name: 'other', nameKey: 'other', ownerTokenId: '', ownerUsername: 'ada' }
      const fault = { faultCode: 'import_failed', faultDetail: '' }
      const row = { repositoryId: newId(), ...name, ...about, ...fault }
      await db.insertInto('imports').values(row).execute()
      return repositoryId
    },
    act: async ({ admin }) =>
      assertStatus(
        admin.post('/repos/import', { source: 'http://127.0.0.1:9/x.git', name: 'other' }),
        422,
      ),
    locks: (id) => `update repositories set name = 'other', name_key = 'other' where id = '${id}'`,
    waits: 'insert into "repositories"',
    after: `delete from imports where name_key = 'other'`,
  }),
  of({
    name: 'renames and limits a namespace of which a repository is being renamed',
    arrange: async ({ admin }) => {
      await assertStatus(admin.post('/namespaces', { name: 'acme' }), 201)
      await assertStatus(admin.patch('/repos/site', { name: 'acme/site' }), 200)
    },
    act: ({ admin }) =>
      assertStatus(admin.patch('/namespaces/acme', { name: 'club', maxBytes: 1e6 }), 200),
    locks: () => `select 1 from repositories for update`,
    waits: 'select "id", "name", "state" from "repositories"',
    // As a push does, whose repository refers to the namespace.
    after: `select 1 from namespaces for key share; ${counter}`,
  }),
  // Deleting a user deletes its memberships first.
  of({
    name: 'deletes a namespace whose member is being deleted',
    arrange: async ({ admin }) => assertStatus(admin.post('/namespaces', { name: 'acme' }), 201),
    act: ({ admin }) => assertStatus(admin.delete('/namespaces/acme'), 204),
    locks: () => 'delete from namespace_members',
    waits: 'delete from "namespaces"',
    after: counter,
  }),
  of({
    name: 'deletes a user with a trust rule whose role is being changed',
    arrange: async ({ admin, client }) => {
      const permissions = ['repo:read', 'repo:write', 'collaborator:write']
      const ada = await client({ username: 'ada', permissions })
      await assertStatus(admin.post('/namespaces', { name: 'acme' }), 201)
      await assertStatus(admin.put('/namespaces/acme/members/ada', { role: 'maintain' }), 200)
      await assertStatus(ada.post('/repos', { name: 'acme/own' }), 201)
      const rule = {
        ...{ name: 'ci', issuer: 'https://127.0.0.1:9', claims: { sub: 'x' } },
        ...{ repositories: ['acme/own'], permissions: ['repo:read'] },
      }
      await assertStatus(ada.post('/trust-rules', rule), 201)
      await assertStatus(admin.patch('/repos/acme%2Fown', { ownerUsername: 'admin' }), 200)
    },
    act: ({ admin }) => assertStatus(admin.delete('/users/ada'), 204),
    locks: () => `update namespace_members set role = 'read' where member = 'ada'`,
    waits: 'delete from "namespace_members"',
    after: counter,
  }),
  // Linking a user with another person locks the user first.
  of({
    name: 'ends the login of a user who is being changed',
    arrange: async ({ db, client }) => {
      await client({ username: 'ada' })
      const login = newLogin({ username: 'ada', issuer: 'https://old.example/', subject: '1' }, 1)
      await db
        .insertInto('logins')
        .values({ ...login, lastLoginAt: 1 })
        .execute()
    },
    act: async ({ db }) => {
      const about = { db, publish: createPublish([]), clock: { now: Date.now } }
      assert.equal(await endForeignLogins(about, undefined), 1)
    },
    locks: () => `select 1 from users where username = 'ada' for no key update`,
    waits: 'select * from "users"',
    after: `update logins set is_admin = 0`,
  }),
]

for (const { name, arrange, act, locks, waits, after } of cases) {
  test(`locks of ${name} cause no deadlock`, {
    skip: without('postgres'),
  }, async () => {
    await using stack = new AsyncDisposableStack()
    const { url, drop } = await createPostgresDatabase()
    stack.defer(drop)
    const outbound = { SVC_OUTBOUND_ALLOW: 'loopback' }
    const service = stack.use(await startInProcess({ SVC_DATABASE_URL: url, ...outbound }))
    const { body } = await service.admin.post('/repos', { name: 'site' })
    const site = { ...service, repositoryId: body.id }
    const arranged = await arrange(site)
    const other = new pg.Client(url)
    await other.connect()
    stack.defer(() => other.end())
    // Of two that wait for each other it gets the error, because it detects the deadlock first.
    await other.query(`begin; set local deadlock_timeout = '10ms'`)
    await other.query(locks(arranged))
    const acting = act(site, arranged)
    const ended = acting.then(() => assert.fail('The service did not wait.'))
    // Awaited below, unless something fails before.
    acting.catch(() => {})
    ended.catch(() => {})
    const waiting = `select 1 from pg_locks join pg_stat_activity using (pid)
      where not granted and datname = current_database() and query like '${waits}%'`
    const isWaiting = async () => (await other.query(waiting)).rows.length > 0
    await Promise.race([until('the service waits', isWaiting), ended])
    await other.query(after)
    await other.query('rollback')
    await acting
  })
}

// The cases arrange different values, which the loop need not know.
function of<T = undefined>({ arrange, ...rest }: Case<T>): Required<Case<unknown>> {
  return { arrange: arrange ?? (async () => undefined), ...rest } as Required<Case<unknown>>
}

async function assertStatus(answer: ReturnType<Client['get']>, status: number): Promise<void> {
  const { status: given, text } = await answer
  assert.equal(given, status, text)
}

async function runsOf({ admin }: Site): Promise<number> {
  return (await admin.get('/repos/site/workflows')).body.length
}
