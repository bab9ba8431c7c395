import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { createProject, type Project } from '../support/git.ts'
import { type InProcess, startInProcess } from '../support/in-process.ts'
import { without } from '../support/programs.ts'
import { type HeldRun, mustClaim, wholeRun } from '../support/run-by-hand.ts'
import { type Client, createClient, type Service, startServiceWithSsh } from '../support/service.ts'
import { createSshUser } from '../support/ssh-user.ts'
import { pushFiles } from '../support/workflow-site.ts'

let service: InProcess
let project: Project

before(async () => {
  service = await startInProcess()
  project = await createProject()
  await pushFiles(service.admin, 'site', { 'a.txt': 'a' })
  await service.admin.patch('/repos/site', { runTokens: 'write' })
  await service.admin.post('/repos/site/collaborators', { username: 'cora' })
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

const file = '.svc/workflows/ci.yml'
const workflow = (on: string) =>
  `on: ${on}\npermissions: { contents: write, actions: write, id-token: write }\nsteps: [{ run: x }]\n`
const everything = ['repo:read', 'repo:write', 'workflow:read', 'workflow:trigger']

async function tokenOf(username: string, wanted: object = {}): Promise<Client> {
  const body = { name: 'test', username, permissions: everything, ...wanted }
  const answer = await service.admin.post('/tokens', body)
  assert.equal(answer.status, 201, answer.text)
  return createClient(service.url, answer.body.token, { id: answer.body.id, username })
}

function jobOf({ plan }: HeldRun): Client {
  return createClient(service.url, plan.identities[0]?.token ?? '')
}

/** The run of a push of a workflow by a client. */
async function runOfPush(client: Client, branch: string): Promise<HeldRun> {
  await pushFiles(client, 'site', { [file]: workflow('push') }, { branch })
  return mustClaim(service.admin)
}

const refsPath = (branch: string) => `/repos/site/refs?ref=refs/heads/${branch}`

/** What a job may do: read, create a branch, list runs, and get an ID token. */
async function mayDo({ plan, path }: HeldRun, branch: string): Promise<string> {
  const job = jobOf({ plan } as HeldRun)
  const requester = createClient(service.url, plan.identities[0]?.idTokens?.token ?? '')
  const answers = {
    read: await job.get('/repos/site/branches'),
    write: await job.put(refsPath(branch), { target: plan.commit }),
    list: await job.get('/repos/site/workflows'),
    identify: await requester.get(`${path}/id-token`),
  }
  const allowed = Object.entries(answers).filter(([, { status }]) => status < 300)
  for (const [name, { status }] of Object.entries(answers))
    assert.ok(status < 300 || status === 403, `${name}: ${status}`)
  return allowed.map(([name]) => name).join(' ')
}

test('a job pushes only the refs that the token behind its run may push', async () => {
  const agent = await tokenOf('cora', { refs: ['refs/heads/agents/*'] })
  const run = await runOfPush(agent, 'agents/one')
  const job = jobOf(run)
  const refused = await job.put(refsPath('other'), { target: run.plan.commit })
  assert.deepEqual([refused.status, refused.body.code], [403, 'token_limited'])
  const change = { branch: 'main', message: 'x', changes: [{ path: 'x', content: 'x' }] }
  assert.equal((await job.post('/repos/site/commits', change)).body.code, 'token_limited')
  await project.git('fetch', '--quiet', job.remote('site'), 'agents/one')
  const push = (ref: string) =>
    project.git('push', '--quiet', job.remote('site'), `FETCH_HEAD:refs/heads/${ref}`)
  await assert.rejects(push('other'), /may not change "refs\/heads\/other"/)
  await push('agents/two')
  await run.report(...wholeRun())
})

const gone: Record<string, (token: Client) => Promise<unknown>> = {
  'the token is deleted': ({ id }) => service.admin.delete(`/tokens/${id}`),
  'the token expires': ({ id }) =>
    service.db
      .updateTable('tokens')
      .set({ expiresAt: Date.now() - 1 })
      .where('id', '=', id)
      .execute(),
  'the user is disabled': () => service.admin.patch('/users/cora', { disabled: true }),
  'the user is removed': () => service.admin.delete('/repos/site/collaborators/cora'),
}

for (const [how, lose] of Object.entries(gone)) {
  test(`a job loses its rights when ${how}`, async () => {
    await service.admin.post('/repos/site/collaborators', { username: 'cora' })
    const token = await tokenOf('cora')
    const run = await runOfPush(token, 'lost')
    const branch = how.replaceAll(' ', '-')
    assert.equal(await mayDo(run, branch), 'read write list identify')
    await lose(token)
    assert.equal(await mayDo(run, `${branch}-2`), '')
    const refused = await jobOf(run).get('/repos/site')
    assert.match(refused.body.detail, /the token or key that caused the run still has/)
    // Its runner goes on: the run itself was authorized.
    await run.report(...wholeRun())
    await service.admin.patch('/users/cora', { disabled: false })
    await service.admin.post('/repos/site/collaborators', { username: 'cora' })
  })
}

test('a job loses its rights with the token that the cause of its run was delegated from', async () => {
  const parent = await tokenOf('cora')
  const { body } = await parent.post('/tokens/delegate', {
    name: 'child',
    permissions: ['repo:read', 'repo:write'],
  })
  const child = createClient(service.url, body.token, { id: body.id, username: 'cora' })
  const run = await runOfPush(child, 'delegated')
  assert.equal(await mayDo(run, 'by-delegate'), 'read write identify')
  await service.admin.delete(`/tokens/${parent.id}`)
  assert.equal(await mayDo(run, 'by-delegate-2'), '')
  await run.report(...wholeRun())
})

test('a job has no right that the token behind its run lacks, and follows the role of its user', async () => {
  await pushFiles(service.admin, 'site', { [file]: workflow('workflow_dispatch') })
  const starter = await tokenOf('cora', { permissions: ['repo:read', 'workflow:trigger'] })
  assert.equal((await starter.post('/repos/site/workflows', {})).status, 202)
  const run = await mustClaim(service.admin)
  assert.equal(await mayDo(run, 'by-starter'), 'read identify')
  const roles = { username: 'cora', role: 'read' }
  await service.admin.post('/repos/site/collaborators', roles)
  assert.equal(await mayDo(run, 'by-starter'), 'read')
  await service.admin.post('/repos/site/collaborators', { ...roles, role: 'write' })
  await run.report(...wholeRun())
})

test('a rerun has no right that either its cause or that of the first attempt lacks', async () => {
  const limited = await tokenOf('cora', { refs: ['refs/heads/agents/*'] })
  const others = await tokenOf('cora', { refs: ['refs/heads/*'] })
  const rerun = async (by: Client, { plan }: HeldRun) => {
    const answer = await by.post(`/repos/site/workflows/${plan.runId}/rerun`, {})
    assert.equal(answer.status, 202, answer.text)
    return mustClaim(service.admin)
  }
  const first = await runOfPush(limited, 'agents/rerun')
  await first.report(...wholeRun('failure'))
  const byOwner = await rerun(service.admin, first)
  assert.equal(await mayDo(byOwner, 'by-rerun'), 'read list identify')
  assert.equal(await mayDo(byOwner, 'agents/by-rerun'), 'read write list identify')
  await byOwner.report(...wholeRun('failure'))

  const ofOwner = await runOfPush(service.admin, 'of-owner')
  await ofOwner.report(...wholeRun('failure'))
  const byLimited = await rerun(limited, ofOwner)
  assert.equal(await mayDo(byLimited, 'by-rerun'), 'read list identify')
  await byLimited.report(...wholeRun('failure'))
  const again = await rerun(others, ofOwner)
  assert.equal(await mayDo(again, 'by-rerun'), 'read write list identify')
  await service.admin.delete(`/tokens/${others.id}`)
  assert.equal(await mayDo(again, 'by-rerun-2'), '')
  await again.report(...wholeRun('failure'))
  const last = await rerun(service.admin, first)
  await service.admin.delete(`/tokens/${limited.id}`)
  assert.equal(await mayDo(last, 'agents/by-rerun-2'), '')
  await last.report(...wholeRun())
})

test('a scheduled run has the rights of the token that pushed the schedule', async () => {
  const token = await tokenOf('cora', { refs: ['refs/heads/main', 'refs/heads/nightly/*'] })
  await pushFiles(token, 'site', { [file]: workflow("{ schedule: [{ cron: '17 3 * * *' }] }") })
  const due = () =>
    service.db.updateTable('schedules').set({ nextAt: 1 }).returning('file').execute()
  await until('the schedule is there', async () => (await due()).length > 0)
  await until('it has started', async () => {
    const { body } = await service.admin.get('/repos/site/workflows?status=queued')
    return body.length > 0
  })
  const run = await mustClaim(service.admin)
  assert.equal(run.plan.event, 'schedule')
  assert.equal(await mayDo(run, 'by-schedule'), 'read list identify')
  assert.equal(await mayDo(run, 'nightly/by-schedule'), 'read write list identify')
  await service.admin.delete(`/tokens/${token.id}`)
  assert.equal(await mayDo(run, 'nightly/by-schedule-2'), '')
  await run.report(...wholeRun())
})

test('a job of a run that a push over SSH caused has the rights of the key', {
  skip: without('openssh'),
}, async () => {
  await using server: Service = await startServiceWithSsh()
  await using user = await createSshUser(server, server.admin)
  const files = { [file]: workflow('push') }
  await pushFiles(server.admin, 'site', files, { message: '[no ci]' })
  await server.admin.patch('/repos/site', { runTokens: 'write' })
  await project.git('fetch', '--quiet', server.admin.remote('site'), 'main')
  const tree = await project.git('rev-parse', 'FETCH_HEAD^{tree}')
  const next = await project.git('commit-tree', '-p', 'FETCH_HEAD', '-m', 'Next', tree)
  await user.git(project.path, 'push', '--quiet', user.remote('site'), `${next}:refs/heads/main`)
  const run = await mustClaim(server.admin)
  const job = createClient(server.url, run.plan.identities[0]?.token ?? '')
  const write = (branch: string) => job.put(refsPath(branch), { target: next })
  assert.equal((await write('by-key')).status, 201)
  assert.equal((await job.get('/repos/site/workflows')).status, 403)
  await server.admin.delete(`/keys/${user.keyId}`)
  assert.equal((await write('by-key-2')).status, 403)
  await run.report(...wholeRun())
})

// They start runs of any ref, or check the refs that they are about.
const aboutRefs = new Set([
  'createRun',
  'cancelRun',
  'approveRun',
  'rerunRun',
  'deleteArtifact',
  'deleteCaches',
  'deleteCache',
  'createCommit',
  'createMerge',
  'setRef',
  'deleteRef',
  'undoPush',
  'landChange',
  'proposeCommit',
])

test('a token for some refs changes no part of a repository but refs, on any route', async () => {
  const permissions = [
    'repo:read',
    'repo:write',
    'workflow:trigger',
    'secrets:write',
    'webhook:write',
  ]
  const agent = await tokenOf('admin', { permissions, refs: ['refs/heads/agents/*'] })
  const called = new Set<string>()
  for (const route of service.routes) {
    if (route.kind !== 'json' || !route.path.startsWith('/repos/:name')) continue
    const { permission = ':read', operationId } = route
    // No token for some refs has the others.
    if (permission.endsWith(':read') || !permissions.some((one) => one === permission)) continue
    const path = route.path.replace(':name', 'site').replace(/:\w+\*?/g, 'x')
    const given = route.method === 'GET' ? undefined : {}
    const { status, text, body } = await agent.call(route.method, path, given)
    if (aboutRefs.has(operationId)) assert.notEqual(status, 403, `${operationId}: ${text}`)
    else assert.deepEqual([status, body.code], [403, 'token_limited'], operationId)
    called.add(operationId)
  }
  assert.ok(called.size > 20 && aboutRefs.difference(called).size === 0, [...called].join(' '))
})
