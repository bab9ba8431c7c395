import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { freePort } from '../support/free-port.ts'
import { git, temporaryFolder } from '../support/git.ts'
import { type InProcess, startInProcess } from '../support/in-process.ts'
import { type People, startLoginProvider } from '../support/login-provider.ts'
import type { PageClient } from '../support/page-client.ts'
import { without } from '../support/programs.ts'
import { type HeldRun, mustClaim, wholeRun } from '../support/run-by-hand.ts'
import { type Client, createClient } from '../support/service.ts'
import { createSshUser, type SshUser } from '../support/ssh-user.ts'
import { withSsh } from '../support/test-settings.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

const ada = { preferred_username: 'ada', name: 'Ada', groups: ['staff', 'web'] }
const people: People = { 1001: ada }

const resources = new AsyncDisposableStack()
let service: InProcess
let provider: Awaited<ReturnType<typeof startLoginProvider>>

before(async () => {
  const port = await freePort()
  provider = resources.use(await startLoginProvider(`http://127.0.0.1:${port}`, people))
  service = resources.use(
    await startInProcess({
      ...provider.env,
      ...withSsh,
      SVC_PORT: String(port),
      SVC_OIDC_ALLOWED_GROUPS: 'staff',
    }),
  )
})

after(() => resources.disposeAsync())

const team = 'team/site'
const api = (name: string) => `/repos/${encodeURIComponent(name)}`

/** What a person has: one of each means. */
type Means = { page: PageClient; token: Client; delegated: Client; key: SshUser; run: HeldRun }

/** The names of the means that can read a repository. A job reads that of its run alone. */
async function readers(name: string, { page, token, delegated, key, run }: Means) {
  const job = createClient(service.url, run.plan.identities[0]?.token ?? '')
  const isRead = {
    delegated: (await delegated.get(api(name))).status === 200,
    job: (await job.get(api(name))).status === 200,
    key: await key
      .tryGit('/', 'ls-remote', key.remote(name))
      .then(({ exitCode }) => exitCode === 0),
    page: (await page.get(`/r/${name}`)).status === 200,
    token: (await token.get(api(name))).status === 200,
  }
  return Object.entries(isRead).flatMap(([means, is]) => (is ? [means] : []))
}

/** Asks the provider about all logins, as happens every quarter of an hour. */
async function checkLogins() {
  const due = service.db.updateTable('logins').set({ nextCheckAt: 1 })
  await due.where('nextCheckAt', 'is not', null).execute()
  await service.logins?.checkDue()
}

test('a person is invited, renamed, moved, disabled, gone, and comes back', {
  skip: without('openssh'),
}, async () => {
  const { admin } = service
  // Before the first login.
  await pushFiles(admin, 'handbook', { 'a.txt': 'a' })
  await admin.post('/repos/handbook/collaborators', { username: 'ada' })
  await admin.post('/namespaces', { name: 'team' })
  await admin.put('/namespaces/team/members/group%3Aweb', { role: 'maintain' })
  await admin.post('/repos', { name: team })

  const { here: page, logIn } = provider.createBrowser()
  assert.match((await logIn('1001', '/-/login/provider?next=/')).text, /href="\/r\/handbook"/)
  const means = await meansOf(page)
  const all = ['delegated', 'key', 'page', 'token']
  assert.deepEqual(await readers('handbook', means), all)
  assert.deepEqual(await readers('site', means), all)
  const withJob = ['delegated', 'job', 'key', 'page', 'token']
  assert.deepEqual(await readers(team, means), withJob)

  // Another name at the provider is that of the same user.
  people[1001] = { ...ada, preferred_username: 'ada.lovelace', name: 'Ada Lovelace' }
  await logIn('1001')
  const { body: user } = await admin.get('/users/ada')
  assert.deepEqual([user.displayName, user.source], ['Ada Lovelace', 'login'])
  assert.equal((await admin.get('/users/ada.lovelace')).status, 404)
  assert.deepEqual(await readers(team, means), withJob)

  people[1001] = { ...ada, groups: ['staff'] }
  await checkLogins()
  await checkLogins()
  assert.deepEqual(await readers(team, means), [])
  assert.deepEqual(await readers('site', means), all)
  people[1001] = ada
  await checkLogins()
  assert.deepEqual(await readers(team, means), withJob)

  // An entry for each change, and none for the check that found nothing new.
  const { body: changes } = await admin.get('/audit?action=user.updated')
  assert.deepEqual(
    changes
      .slice(0, 3)
      .map(({ data }: { data: Record<string, unknown> }) => [data.addedGroups, data.removedGroups]),
    [
      [['web'], undefined],
      [undefined, ['web']],
      [undefined, undefined],
    ],
  )
  const { groups, login } = (await admin.get('/users/ada')).body
  assert.deepEqual([groups, login.subject], [ada.groups, '1001'])
  assert.deepEqual((await means.token.get('/user')).body.user.groups, ada.groups)

  const stream = await fetch(`${service.url}/events?follow=true`, {
    headers: { authorization: `Bearer ${means.delegated.token}` },
  })
  const refused = assert.rejects(pushAndWait(means.delegated), /its user is disabled/)
  const waited = await mustClaim(admin)
  await admin.patch('/users/ada', { disabled: true })
  for (const name of ['handbook', 'site', team])
    assert.deepEqual(await readers(name, means), [], name)
  // It ends by itself.
  await stream.text()
  await waited.report(...wholeRun())
  await refused
  assert.deepEqual((await admin.get('/repos/site/branches')).body.length, 1)
  await admin.patch('/users/ada', { disabled: false })
  assert.deepEqual(await readers(team, means), withJob)

  delete people[1001]
  await checkLogins()
  for (const name of ['handbook', 'site', team])
    assert.deepEqual(await readers(name, means), [], name)
  // What belongs to a repository stays with it.
  const [schedule] = await service.db.selectFrom('schedules').select('cron').execute()
  assert.equal(schedule?.cron, '17 3 * * *')
  assert.equal((await admin.get('/repos/site/webhooks')).body.length, 1)

  people[1001] = ada
  const back = provider.createBrowser()
  await back.logIn('1001')
  // What came of the former login is gone with it.
  const now = ['key', 'page', 'token']
  assert.deepEqual(await readers('site', { ...means, page: back.here }), now)
  assert.deepEqual(await readers(team, means), ['job', 'key', 'token'])
  const { body: entries } = await admin.get('/audit?action=session.created')
  for (const { actor, data } of entries)
    assert.deepEqual([actor.username, data.means], ['ada', 'identity-provider'])
})

/** Makes one of each means with which a person who is logged in gets in, and a repository with what acts for it. */
async function meansOf(page: PageClient): Promise<Means> {
  const { admin, url } = service
  const fields = { name: 'laptop' }
  const created = await page.post('/-/tokens/delegate', fields)
  assert.equal(created.status, 303, created.text)
  const { text } = await page.get('/-/tokens')
  const delegated = createClient(url, /svc_\w+/.exec(text)?.[0] ?? assert.fail(text), {
    id: '',
    username: 'ada',
  })
  const made = await admin.post('/tokens', {
    name: 'own',
    username: 'ada',
    permissions: ['everything'],
  })
  const token = createClient(url, made.body.token, { id: made.body.id, username: 'ada' })
  const key = resources.use(await createSshUser(service, token))
  const workflow = 'on: { push: , schedule: [{ cron: "17 3 * * *" }] }\nsteps: [{ run: x }]\n'
  await pushFiles(token, team, oneStep('x'))
  const run = await startRun(token)
  await pushFiles(token, 'site', { '.svc/workflows/ci.yml': workflow })
  await (await mustClaim(admin)).report(...wholeRun())
  await token.post('/repos/site/webhooks', { url: 'http://127.0.0.1:9/', events: ['workflow'] })
  return { page, token, delegated, key, run }
}

async function startRun(token: Client): Promise<HeldRun> {
  const { status, text } = await token.post(`${api(team)}/workflows`, {})
  assert.equal(status, 202, text)
  return mustClaim(service.admin)
}

/** Starts a push that waits for its runs. */
async function pushAndWait(client: Client): Promise<void> {
  await using folder = await temporaryFolder()
  await git(folder.path, ['clone', '--quiet', client.remote('site'), '.'])
  await git(folder.path, ['commit', '--quiet', '--allow-empty', '-m', 'Next'])
  await git(folder.path, ['push', '-o', 'wait', 'origin', 'HEAD:refs/heads/next'])
}
