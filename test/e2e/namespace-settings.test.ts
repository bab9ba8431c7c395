// Tags: each-store
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { createProject } from '../support/git.ts'
import { logIn } from '../support/page-client.ts'
import { without } from '../support/programs.ts'
import { type Received, startReceiver } from '../support/receiver.ts'
import { type Client, createClient, type Service, startServiceWithSsh } from '../support/service.ts'
import { createSshUser } from '../support/ssh-user.ts'
import { endOf, logOf, pushFiles, runToEnd } from '../support/workflow-site.ts'

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
  const { text } = await page.get('/r/acme/site/settings')
  assert.match(text, /Of the namespace.*BY_FORM/)
  assert.match(text, /by the namespace <a href="\/-\/namespaces\/acme">acme/)
  const entries = (await admin.get('/audit?action=secret.saved&limit=1')).body
  assert.deepEqual(entries[0].data, { name: 'BY_FORM', namespace: 'acme' })

  // A rename keeps them, and a repository that leaves has its own alone.
  await admin.patch('/namespaces/acme', { name: 'apex' })
  assert.equal((await runToEnd(owner, 'apex/site')).conclusion, 'success')
  await admin.patch('/namespaces/apex', { name: 'acme' })
  await owner.patch(`/repos/${api('acme/site')}`, { name: 'site' })
  const collaborators = '/repos/site/collaborators'
  await owner.post(collaborators, { username: 'a-stranger', role: 'write' })
  const after = await runToEnd(as('stranger'), 'site')
  assert.match(await logOf(owner, 'site', after.id), /<> <\*\*\*> 0/)

  // What a former collaborator caused gets no secrets of the namespace.
  await owner.delete(`${collaborators}/a-stranger`)
  await owner.patch('/repos/site', { name: 'acme/site' })
  const inNamespace = `/repos/${api('acme/site')}`
  const again = async () => {
    const rerun = await owner.post(`${inNamespace}/workflows/${after.id}/rerun`, {})
    assert.equal(rerun.status, 202, rerun.text)
    return (await endOf(owner, 'acme/site', after.id)).conclusion
  }
  assert.equal(await again(), 'failure')
  assert.match(await logOf(owner, 'acme/site', after.id), /<> <\*\*\*> 0/)
  await owner.post(`${inNamespace}/collaborators`, { username: 'a-stranger', role: 'write' })
  assert.equal(await again(), 'success')
  await owner.delete(`${inNamespace}/collaborators/a-stranger`)
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
  const { body: whole } = await admin.get(`${at}/deliveries/${pending.id}`)
  assert.deepEqual([whole.body, whole.history], [null, []])
  const replayed = await admin.post(`${at}/replay`, { since: first.createdAt })
  assert.deepEqual([replayed.status, replayed.body.created], [202, 0])
  // What one did before it came is not sent; what it did there is gone with it.
  await owner.patch('/repos/elsewhere', { name: 'acme/elsewhere' })
  const again = await admin.post(`${at}/replay`, { since: first.createdAt })
  assert.deepEqual([again.status, again.body.created], [202, 0])
  await owner.delete('/repos/late')
  const [gone] = (await admin.get('/deleted-repos')).body
  assert.equal((await admin.delete(`/deleted-repos/${gone.id}`)).status, 204)
  assert.equal((await admin.get(`${at}/deliveries/${pending.id}`)).status, 404)
  // One that is deleted waits until it is restored.
  await owner.delete(`/repos/${api('acme/early')}`)
  await admin.post(`${at}/deliveries/${early.id}/retry`)
  const [deleted] = (await admin.get('/deleted-repos')).body
  await admin.post(`/deleted-repos/${deleted.id}/restore`, {})
  await untilSettled()
  assert.equal((await admin.get(`${at}/deliveries/${early.id}`)).body.status, 'success')
})

test('the protections of a namespace hold in all its repositories, besides their own', async () => {
  const rules = '/namespaces/acme/protections/branches'
  await assertLeast('maintain', (client, name) =>
    client.put(`/namespaces/${name}/protections/branches/release/*`, { owners: 'fast-forward' }),
  )
  await assertLeast('read', (client, name) => client.get(`/namespaces/${name}/protections/tags`))
  const [owner, member] = [as('maintain'), as('write')]
  const { body: made } = await owner.post('/repos', { name: 'acme/guarded' })
  const first = await pushFiles(owner, 'acme/guarded', { 'a.txt': 'a' })
  const later = await pushFiles(owner, 'acme/guarded', { 'b.txt': 'b' })
  await using project = await createProject()
  await project.git('fetch', '--quiet', owner.remote('acme/guarded'), 'main')
  const push = (client: Client, ...refs: string[]) =>
    project.git('push', '--quiet', client.remote('acme/guarded'), ...refs).then(
      () => 'pushed',
      ({ stderr }) => stderr,
    )
  const branch = 'refs/heads/release/1'
  const at = `/repos/${api('acme/guarded')}`
  const sentence =
    /The branch "release\/1" is protected by the rule "release\/\*" of the namespace "acme": /
  assert.match(await push(member, `${first}:${branch}`), sentence)
  assert.equal(await push(owner, `${first}:${branch}`), 'pushed')
  // Its own rule weakens nothing.
  await owner.put(`${at}/protections/branches/release/*`, { owners: 'any' })
  assert.equal(await push(owner, `${later}:${branch}`), 'pushed')
  assert.match(
    await push(owner, `+${first}:${branch}`),
    /of the namespace "acme": it cannot be forced/,
  )
  await owner.delete(`${at}/protections/branches/release/*`)
  const [{ id: pushId }] = (await owner.get(`${at}/pushes?limit=1`)).body
  await pushFiles(owner, 'acme/guarded', { 'c.txt': 'c' })
  const commit = { branch: 'release/1', message: 'x', changes: [{ path: 'x', content: 'x' }] }
  for (const [client, method, path, body] of [
    [member, 'POST', 'commits', commit],
    [member, 'PUT', `refs?ref=${branch}`, { target: 'main' }],
    [owner, 'PUT', `refs?ref=${branch}`, { target: first, force: true }],
    [owner, 'DELETE', `refs?ref=${branch}`, undefined],
    [owner, 'POST', `pushes/${pushId}/undo`, undefined],
    [member, 'POST', 'merges', { base: 'release/1', head: 'main', method: 'merge' }],
  ] as const) {
    const refused = await client.call(method, `${at}/${path}`, body)
    assert.deepEqual(
      [refused.status, refused.body.code],
      [403, 'branch_protected'],
      `${method} ${path}: ${refused.text}`,
    )
    assert.match(refused.body.detail, sentence)
  }
  if (!without('openssh')) {
    await using user = await createSshUser(service, member)
    const pushed = user.git(
      project.path,
      'push',
      user.remote('acme/guarded'),
      `+${first}:${branch}`,
    )
    await assert.rejects(pushed, { stderr: sentence })
  }

  // Readers see what holds; the list of the repository itself has its own alone.
  const { body: listed } = await as('read').get(`${at}/protections/branches`)
  const rule = {
    ...{ pattern: 'release/*', owners: 'fast-forward', requires: [] },
    ...{ approvals: 0, codeOwners: false, queue: false },
  }
  assert.deepEqual(listed, { branches: [], rules: [], inherited: [{ ...rule, namespace: 'acme' }] })
  await as('admin').post('/repos', { name: 'plain' })
  const { body: plain } = await as('admin').get('/repos/plain/protections/branches')
  assert.deepEqual(plain, { branches: [], rules: [] })
  assert.deepEqual(
    (await owner.get(`${at}/branches`)).body.map(
      (one: { isProtected: boolean }) => one.isProtected,
    ),
    [false, true],
  )
  assert.deepEqual((await owner.get(rules)).body, { branches: ['release/*'], rules: [rule] })
  const page = await logIn(service.url, owner.token)
  assert.match((await page.get('/r/acme/guarded/settings')).text, /Of the namespace.*release\/\*/)
  const settings = '/-/namespaces/acme/settings'
  await page.post(`${settings}/tags`, { pattern: 'v*', owners: 'none' })
  assert.match(
    await push(owner, 'HEAD:refs/tags/v1'),
    /A maintainer of the namespace can change the rule/,
  )

  await owner.patch(at, { name: 'free' })
  assert.equal((await owner.get(`/repos/${made.id}`)).status, 404)
  const moved = { target: first, force: true }
  assert.equal((await owner.put(`/repos/free/refs?ref=${branch}`, moved)).status, 200)
})

test('a namespace is deleted with all that it has', async () => {
  for (const { name } of (await admin.get('/repos?namespace=acme')).body) {
    await admin.delete(`/repos/${api(name)}`)
    const [deleted] = (await admin.get('/deleted-repos')).body
    await admin.delete(`/deleted-repos/${deleted.id}`)
  }
  const gone = await as('admin').delete('/namespaces/acme')
  assert.equal(gone.status, 204, gone.text)
  await admin.post('/namespaces', { name: 'acme' })
  for (const path of ['secrets', 'webhooks'])
    assert.deepEqual((await admin.get(`/namespaces/acme/${path}`)).body, [])
  assert.deepEqual((await admin.get('/namespaces/acme/protections/branches')).body.branches, [])
})
