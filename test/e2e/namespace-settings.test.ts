// Tags: each-store
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { logIn } from '../support/page-client.ts'
import { without } from '../support/programs.ts'
import { type Received, startReceiver } from '../support/receiver.ts'
import { type Client, createClient, type Service, startServiceWithSsh } from '../support/service.ts'
import { logOf, pushFiles, runToEnd } from '../support/workflow-site.ts'

let service: Service
let admin: Client
/** A client for each role in the namespace `acme`, and of a stranger. */
const users = new Map<string, Client>()

before(async () => {
  service = await startServiceWithSsh({ env: { SVC_RUNNER: 'on' } })
  admin = service.admin
  await admin.post('/namespaces', { name: 'acme' })
  for (const role of ['read', 'write', 'maintain', 'admin', 'stranger']) {
    users.set(role, await service.client({ username: `a-${role}`, permissions: ['everything'] }))
    if (role !== 'stranger') await admin.put(`/namespaces/acme/members/a-${role}`, { role })
  }
})

after(() => service[Symbol.asyncDispose]())

function as(role: string): Client {
  const client = users.get(role)
  assert.ok(client, role)
  return client
}

/** The path of a repository in the API, after `/repos/`. */
const api = (name: string) => encodeURIComponent(name)

/** What clients with each role get for a request, and a stranger, as for a namespace that was never used. */
async function assertLeast(
  least: string,
  send: (client: Client, name: string) => Promise<{ status: number; body: { code?: string } }>,
) {
  const order = ['read', 'write', 'maintain', 'admin']
  for (const role of order) {
    const { status, body } = await send(as(role), 'acme')
    if (order.indexOf(role) >= order.indexOf(least)) assert.ok(status < 300, `${role}: ${status}`)
    else assert.deepEqual([status, body.code], [403, 'role_insufficient'], role)
  }
  const [hidden, unused] = [
    await send(as('stranger'), 'acme'),
    await send(as('stranger'), 'unused'),
  ]
  assert.deepEqual([hidden.status, unused.status], [404, 404])
  assert.equal(
    JSON.stringify(hidden.body).replaceAll('acme', 'unused'),
    JSON.stringify(unused.body),
  )
}

test('runs in all repositories of a namespace have its secrets that their files name', {
  skip: without('bubblewrap'),
}, async () => {
  await assertLeast('write', (client, name) =>
    client.put(`/namespaces/${name}/secrets/SHARED`, { value: 'hush of all' }),
  )
  await assertLeast('read', (client, name) => client.get(`/namespaces/${name}/secrets`))
  for (const name of ['BOTH', 'UNNAMED'])
    await admin.put(`/namespaces/acme/secrets/${name}`, { value: `all ${name}` })
  const [listed] = (await as('read').get('/namespaces/acme/secrets?limit=1')).body
  assert.deepEqual(Object.keys(listed), ['name', 'namespace', 'createdAt', 'updatedAt'])
  assert.deepEqual([listed.name, listed.namespace], ['SHARED', 'acme'])
  // What is limited to a repository of it changes nothing that others have.
  await as('maintain').post('/repos', { name: 'acme/site' })
  const limits = { repositories: ['acme/site'], permissions: ['secrets:read', 'secrets:write'] }
  const made = await admin.post('/tokens', { name: 'x', username: 'a-admin', ...limits })
  const limited = createClient(service.url, made.body.token)
  assert.equal((await limited.get('/namespaces/acme/secrets')).body.code, 'token_limited')

  const run =
    'echo "<$SHARED> <$BOTH> $(env | grep -c ^UNN)"; test "$SHARED$BOTH" = "hush of allown"'
  const owner = as('maintain')
  await pushFiles(owner, 'acme/site', {
    '.svc/workflows/ci.yml': `steps:\n  - run: '${run}'\n`,
  })
  await owner.put(`/repos/${api('acme/site')}/secrets/BOTH`, { value: 'own' })
  const { id, conclusion } = await runToEnd(owner, 'acme/site')
  const log = await logOf(owner, 'acme/site', id)
  assert.equal(conclusion, 'success', log)
  assert.match(log, /<\*\*\*> <\*\*\*> 0/)

  const page = await logIn(service.url, as('write').token)
  const settings = '/-/namespaces/acme/settings'
  const saved = await page.post(`${settings}/secrets`, { secret: 'BY_FORM', value: 'x' })
  assert.deepEqual([saved.status, saved.location], [303, `${settings}#secrets`])
  assert.match((await page.get(settings)).text, /BY_FORM/)
  assert.match((await page.get('/r/acme/site/settings')).text, /Of the namespace.*BY_FORM/)
  const entries = (await admin.get('/audit?action=secret.saved&limit=1')).body
  assert.deepEqual(entries[0].data, { name: 'BY_FORM', namespace: 'acme' })

  // A rename keeps them, and a repository that leaves has its own alone.
  await admin.patch('/namespaces/acme', { name: 'apex' })
  assert.equal((await runToEnd(owner, 'apex/site')).conclusion, 'success')
  await admin.patch('/namespaces/apex', { name: 'acme' })
  await owner.patch(`/repos/${api('acme/site')}`, { name: 'site' })
  const after = await runToEnd(owner, 'site')
  assert.match(await logOf(owner, 'site', after.id), /<> <\*\*\*> 0/)
  await owner.patch('/repos/site', { name: 'acme/site' })
})

test('the webhooks of a namespace get the events of all its repositories, as long as they are in it', async () => {
  await using receiver = await startReceiver()
  const hook = { url: receiver.url, events: ['push'] }
  await assertLeast('maintain', (client, name) => client.post(`/namespaces/${name}/webhooks`, hook))
  const hooks = '/namespaces/acme/webhooks'
  const [first, second] = (await admin.get(hooks)).body
  const at = `${hooks}/${first.id}`
  assert.deepEqual([first.namespace, first.repoName], ['acme', undefined])
  await admin.delete(`${hooks}/${second.id}`)
  await admin.patch(at, { secret: 'hush' })

  const owner = as('admin')
  await pushFiles(owner, 'acme/early', { 'a.txt': 'a' })
  await pushFiles(owner, 'acme/late', { 'a.txt': 'a' })
  await pushFiles(owner, 'elsewhere', { 'a.txt': 'a' })
  const received = await receiver.untilReceived(2)
  const ofPush = ({ json, headers }: Received) => [
    json.repository.full_name,
    headers['x-svc-repository'],
  ]
  assert.deepEqual(received.map(ofPush).sort(), [
    ['acme/early', 'acme/early'],
    ['acme/late', 'acme/late'],
  ])
  const [pushed] = received
  assert.ok(pushed)
  const { body, headers, json } = pushed
  const signature = createHmac('sha256', 'hush').update(body).digest('hex')
  assert.equal(headers['x-hub-signature-256'], `sha256=${signature}`)
  assert.deepEqual([json.svc.webhook, json.svc.previousSeq], [first.id, 0])
  const untilSettled = () =>
    until('the deliveries are done', async () => {
      const { body: all } = await admin.get(`${at}/deliveries`)
      return all.every(({ status }: { status: string }) => status !== 'pending') && all
    })
  const [late, early] = await untilSettled()
  assert.deepEqual(
    [late.repoName, early.repoName, late.previousSeq],
    ['acme/late', 'acme/early', early.seq],
  )

  await admin.post(`${at}/ping`)
  const { json: ping, headers: ofPing } = (await receiver.untilReceived(3))[2] ?? {}
  assert.deepEqual(
    [ping.organization.login, ping.repository, ofPing?.['x-svc-repository']],
    ['acme', undefined, undefined],
  )
  await admin.post(`${at}/deliveries/${early.id}/retry`)
  assert.deepEqual((await receiver.untilReceived(4))[3]?.body, body)
  const page = await logIn(service.url, as('maintain').token)
  for (const path of ['', `/${first.id}`, `/${first.id}/deliveries/${early.id}`])
    assert.match((await page.get(`/-/namespaces/acme/webhooks${path}`)).text, /webhook|push/i)

  // One that leaves takes what was not delivered along.
  receiver.answerWith((_received, response) => response.writeHead(500).end())
  await pushFiles(owner, 'acme/late', { 'b.txt': 'b' })
  await receiver.untilReceived(5)
  await owner.patch(`/repos/${api('acme/late')}`, { name: 'late' })
  await pushFiles(owner, 'late', { 'c.txt': 'c' })
  receiver.answerWith((_received, response) => response.writeHead(204).end())
  const [pending] = (await admin.get(`${at}/deliveries?event=push`)).body
  await admin.post(`${at}/deliveries/${pending.id}/retry`)
  const [failed] = await untilSettled()
  assert.deepEqual([failed.id, failed.status, failed.repoName], [pending.id, 'failed', null])
  assert.match(failed.error, /not in the namespace any more/)
  const replayed = await admin.post(`${at}/replay`, { since: first.createdAt })
  assert.deepEqual([replayed.status, replayed.body.created], [202, 0])
  // One that is deleted waits until it is restored.
  await owner.delete(`/repos/${api('acme/early')}`)
  await admin.post(`${at}/deliveries/${early.id}/retry`)
  const [deleted] = (await admin.get('/deleted-repos')).body
  await admin.post(`/deleted-repos/${deleted.id}/restore`, {})
  await untilSettled()
  assert.equal((await admin.get(`${at}/deliveries/${early.id}`)).body.status, 'success')
})
