import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request } from 'node:http'
import { after, before, test } from 'node:test'
import type { Permission } from '#access/permissions.ts'
import type { Route } from '#http/route.ts'
import { followLog } from '../support/event-stream.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, git, type Project } from '../support/git.ts'
import { type InProcess, startInProcess } from '../support/in-process.ts'
import { gitHeaders, pushBody } from '../support/raw-git.ts'
import { begun, type HeldRun, mustClaim, runEnded, wholeRun } from '../support/run-by-hand.ts'
import { type Client, createClient } from '../support/service.ts'
import { pushFiles } from '../support/workflow-site.ts'

let service: InProcess
let project: Project

before(async () => {
  service = await startInProcess()
  project = await createProject()
  for (const name of ['site', 'other']) await pushFiles(service.admin, name, { 'a.txt': 'a' })
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

/** Claims a run whose jobs have these permissions; with a client of its first job. */
async function start(permissions: string, repository = 'site'): Promise<HeldRun & { job: Client }> {
  const text = `${permissions}\njobs: { one: { steps: [{ run: x }] } }\n`
  await pushFiles(service.admin, repository, { '.svc/workflows/ci.yml': text })
  await service.admin.post(`/repos/${repository}/workflows`, { files: ['ci.yml'] })
  const run = await mustClaim(service.admin)
  return { ...run, job: clientOf(run) }
}

function clientOf({ plan }: HeldRun, index = 0): Client {
  const token = plan.identities[index]?.token ?? ''
  assert.match(token, /^svcrun_/)
  return createClient(service.url, token, { id: plan.runId, username: `run-${plan.number}[bot]` })
}

const allow = (runTokens: 'read' | 'write', name = 'site') =>
  service.admin.patch(`/repos/${name}`, { runTokens })

const variants: { permissions: string; runTokens?: 'write'; held: Permission[] }[] = [
  { permissions: '', held: ['repo:read'] },
  { permissions: 'permissions: {}', held: [] },
  { permissions: 'permissions: { actions: none, issues: write }', held: [] },
  { permissions: 'permissions: { contents: read }', held: ['repo:read'] },
  { permissions: 'permissions: { contents: write }', held: ['repo:read'] },
  { permissions: 'permissions: { actions: read }', held: ['workflow:read'] },
  { permissions: 'permissions: { actions: write }', held: ['workflow:read'] },
  { permissions: 'permissions: read-all', held: ['repo:read', 'workflow:read'] },
  { permissions: 'permissions: write-all', held: ['repo:read', 'workflow:read'] },
  {
    permissions: 'permissions: { contents: write }',
    runTokens: 'write',
    held: ['repo:read', 'repo:write'],
  },
  {
    permissions: 'permissions: { actions: write }',
    runTokens: 'write',
    held: ['workflow:read', 'workflow:trigger'],
  },
  { permissions: '', runTokens: 'write', held: ['repo:read'] },
  {
    permissions: 'permissions: write-all',
    runTokens: 'write',
    held: ['repo:read', 'repo:write', 'workflow:read', 'workflow:trigger'],
  },
]

// What concerns all refs of the repository, and what would start runs without end.
const neverAllowed = new Set([
  'updateRepository',
  'addBranchProtection',
  'deleteBranchProtection',
  'addTagProtection',
  'deleteTagProtection',
  'createLfsLock',
  'deleteLfsLock',
  'createRun',
  'approveRun',
  'rerunRun',
])

function isExpected(route: Route, path: string, held: Permission[]): boolean {
  if (neverAllowed.has(route.operationId)) return false
  const [, query] = path.split('?')
  if (route.kind === 'stream') {
    // An LFS batch without an operation is a download.
    return held.includes(route.permissionFor(new URLSearchParams(query)) ?? 'repo:read')
  }
  if (route.kind !== 'json' || !route.permission || route.permission === 'run') return false
  const isOfRepository = route.path.startsWith('/repos/:name')
  return isOfRepository && held.includes(route.permission)
}

for (const { permissions, runTokens = 'read' as const, held } of variants) {
  const suite = runTokens === 'write' || permissions === '' ? {} : exhaustive
  test(
    `with "${permissions}", in a repository that allows ${runTokens}, a job can call what needs ${held.join(', ') || 'nothing'}`,
    suite,
    async () => {
      await allow(runTokens)
      const run = await start(permissions)
      const guarded = service.routes.filter(({ kind }) => kind !== 'public')
      assert.ok(guarded.length > 60)
      for (const route of guarded) {
        const services = route.operationId === 'advertiseRefs' ? ['upload', 'receive'] : ['']
        for (const kind of services) {
          const path = route.path
            .replace(':name', 'site')
            .replace(':repository', 'site.git')
            .replace(/:\w+\*?/g, 'x')
          const query = kind === '' ? '' : `?service=git-${kind}-pack`
          const body = route.method === 'GET' ? undefined : {}
          const answer = await run.job.call(route.method, path + query, body)
          const isAllowed = answer.status !== 403
          const expected = isExpected(route, path + query, held)
          assert.equal(isAllowed, expected, `${route.operationId}: ${answer.status} ${answer.text}`)
        }
      }
      await run.report(...wholeRun())
      assert.equal((await allow('read')).status, 200)
    },
  )
}

test('jobs have tokens of their own where their permissions differ', exhaustive, async () => {
  await allow('write')
  const text = `
permissions: { contents: none }
jobs:
  one: { steps: [{ run: x }] }
  two: { permissions: { contents: write }, steps: [{ run: x }] }
  three: { steps: [{ run: x }] }
`
  await pushFiles(service.admin, 'site', { '.svc/workflows/ci.yml': text })
  await service.admin.post('/repos/site/workflows', {})
  const run = await mustClaim(service.admin)
  const contents = run.plan.identities.map(({ permissions }) => permissions.contents)
  assert.deepEqual(contents, ['none', 'write'])
  assert.equal((await clientOf(run, 0).get('/repos/site')).status, 403)
  assert.equal((await clientOf(run, 1).get('/repos/site')).status, 200)
  await run.report(...wholeRun())
})

test('a refusal says what decides about the permissions of a job', async () => {
  await allow('read')
  const run = await start('permissions: { contents: write }')
  const body = { target: 'main' }
  const refused = await run.job.put('/repos/site/refs?ref=refs/heads/x', body)
  assert.deepEqual([refused.status, refused.body.code], [403, 'permission_missing'])
  assert.match(refused.body.detail, /repo:write; .*`permissions` in its workflow.*`runTokens`/)
  await assert.rejects(
    project.git('push', run.job.remote('site'), 'HEAD:refs/heads/x'),
    /permission repo:write/,
  )
  // A change of the setting applies to the next request, in both directions.
  await allow('write')
  assert.equal((await run.job.put('/repos/site/refs?ref=refs/heads/x', body)).status, 201)
  await allow('read')
  assert.equal((await run.job.delete('/repos/site/refs?ref=refs/heads/x')).status, 403)
  await run.report(...wholeRun())
})

test('only owners and admins allow tokens of runs to write, and the event says so', async () => {
  const maintainer = await service.client({ username: 'mia', permissions: ['repo:write'] })
  await service.admin.post('/repos/site/collaborators', { username: 'mia', role: 'maintain' })
  const refused = await maintainer.patch('/repos/site', { runTokens: 'write' })
  assert.deepEqual([refused.status, refused.body.code], [403, 'owner_required'])
  assert.equal((await service.admin.patch('/repos/site', { runTokens: 'admin' })).status, 400)
  await allow('read')
  assert.equal((await allow('write')).body.runTokens, 'write')
  assert.equal((await allow('write')).status, 200)
  assert.equal((await service.admin.get('/repos/site')).body.runTokens, 'write')
  await allow('read')
  const query = 'kind=repository.run_tokens&repository=site&before=latest&limit=2'
  const { body: newest } = await service.admin.get(`/events?${query}`)
  assert.deepEqual(
    newest.map(({ data }: { data: object }) => data),
    [{ access: 'read' }, { access: 'write' }],
  )
})

test('the token of a job is valid for no other repository', async () => {
  for (const name of ['site', 'other']) await allow('write', name)
  const run = await start('permissions: write-all')
  for (const path of ['', '/commits?rev=main', '/workflows', '/pushes']) {
    const there = await run.job.get(`/repos/other${path}`)
    const absent = await run.job.get(`/repos/gone${path}`)
    assert.equal(there.status, 404, there.text)
    assert.equal(there.text.replaceAll('other', 'gone'), absent.text)
  }
  await assert.rejects(git('/', ['ls-remote', run.job.remote('other')]), /not found/)
  await assert.rejects(project.git('push', run.job.remote('other'), 'HEAD:x'), /not found/)
  await run.report(...wholeRun())
})

test('the token of a job makes no tokens, keys or sessions', async () => {
  await allow('write')
  const run = await start('permissions: write-all')
  const calls = [
    ['POST', '/tokens', { name: 'x' }],
    ['POST', '/tokens/delegate', { name: 'x' }],
    ['GET', '/tokens/delegated'],
    ['POST', '/login-codes'],
    ['POST', '/keys', { name: 'x', publicKey: 'x' }],
    ['POST', '/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/list' }],
    ['POST', '/runner/claim', { name: 'x' }],
    ['GET', `${run.path}/orders`],
    ['POST', `${run.path}/report`, { first: 0, entries: [] }],
  ] as const
  for (const [method, path, body] of calls) {
    const answer = await run.job.call(method, path, body)
    assert.deepEqual([answer.status, answer.body.code], [403, 'permission_missing'], path)
  }
  const login = await fetch(`${service.url}/-/login`, {
    method: 'POST',
    redirect: 'manual',
    headers: { origin: service.url },
    body: new URLSearchParams({ token: run.job.token }),
  })
  assert.ok(login.status >= 400 && login.headers.get('set-cookie') === null, `${login.status}`)
  await run.report(...wholeRun())
})

test(
  'pushes of a job are made by its run, respect protections, and start no runs',
  exhaustive,
  async () => {
    await allow('write')
    const everyPush = 'on: push\nsteps: [{ run: x }]\n'
    await pushFiles(service.admin, 'site', {
      '.svc/workflows/ci.yml': `permissions: { contents: write }\nsteps: [{ run: x }]\n`,
      '.svc/workflows/loop.yml': everyPush,
      '.svc/workflows/broken.yml': 'on: push\nsteps: 1\n',
    })
    const runs = async () => (await service.admin.get('/repos/site/workflows?limit=100')).body
    for (const { id } of (await runs()).filter(({ status }: Run) => status === 'queued'))
      await service.admin.post(`/repos/site/workflows/${id}/cancel`)
    await service.admin.post('/repos/site/workflows', { files: ['ci.yml'] })
    const run = await mustClaim(service.admin)
    const job = clientOf(run)
    const before = (await runs()).length
    await project.git('fetch', '--quiet', job.remote('site'), 'main')
    await project.git('push', '--quiet', job.remote('site'), 'FETCH_HEAD:refs/heads/by-run')
    const change = { path: 'b.txt', content: 'b' }
    const commit = { branch: 'by-run', message: 'Add b', changes: [change] }
    const made = await job.post('/repos/site/commits', commit)
    assert.equal(made.status, 201, made.text)
    const actor = { id: run.plan.runId, username: `run-${run.plan.number}[bot]` }
    const pushes = (await service.admin.get('/repos/site/pushes')).body
    const undone = await job.post(`/repos/site/pushes/${pushes[0].id}/undo`)
    assert.equal(undone.status, 200, undone.text)
    // Listing waits until every push has been reacted to.
    assert.equal((await runs()).length, before)
    for (const push of pushes.slice(0, 2)) assert.deepEqual(push.actor, actor)
    const { body: entries } = await service.admin.get(`/audit?limit=3&credential=${actor.id}`)
    const recorded = entries.map(({ action, via, actor: by }: Entry) => ({ action, via, ...by }))
    assert.deepEqual(recorded, [
      { action: 'push', via: 'api', ...actor },
      { action: 'push', via: 'api', ...actor },
      { action: 'push', via: 'http', ...actor },
    ])

    await service.admin.put('/repos/site/protections/branches/main')
    await assert.rejects(
      project.git('push', job.remote('site'), 'HEAD:refs/heads/main', '--force'),
      /protected/,
    )
    const onMain = await job.post('/repos/site/commits', { ...commit, branch: 'main' })
    assert.equal(onMain.body.code, 'branch_protected')
    await service.admin.delete('/repos/site/protections/branches/main')
    for (const path of ['', `/${run.plan.runId}/rerun`]) {
      const refused = await job.post(`/repos/site/workflows${path}`, {})
      assert.equal(refused.status, 403, refused.text)
    }
    await run.report(...wholeRun())
    // The same push by a user does start it.
    await pushFiles(service.admin, 'site', { 'c.txt': 'c' })
    assert.equal((await runs()).length, before + 2)
    const [queued] = (await runs()).filter(({ status }: Run) => status === 'queued')
    await service.admin.post(`/repos/site/workflows/${queued.id}/cancel`)
    await pushFiles(service.admin, 'site', {
      '.svc/workflows/loop.yml': 'steps: [{ run: x }]',
      '.svc/workflows/broken.yml': 'steps: [{ run: x }]',
    })
  },
)

type Run = { id: string; status: string }
type Entry = { action: string; via: string; actor: { id: string; username: string } }

const ends: Record<string, (run: HeldRun) => Promise<void>> = {
  'it ends': async (run) => void (await run.report(...wholeRun())),
  'it is cancelled': async (run) => {
    await service.admin.post(`/repos/brief/workflows/${run.plan.runId}/cancel`)
    await run.report(...begun(), runEnded('cancelled', 'Cancelled.'))
  },
  'its runner returns it': async (run) => {
    const { status } = await run.own.post(`${run.path}/release`, { reason: 'x', isLoss: false })
    assert.equal(status, 204)
    const again = await mustClaim(service.admin)
    assert.equal((await clientOf(again).get('/repos/brief')).status, 200)
    await again.report(...wholeRun())
  },
  'its repository is deleted': async (run) => {
    const deleted = service.admin.delete('/repos/brief')
    await run.own.get(`${run.path}/orders?wait=5`)
    await run.report(...begun(), runEnded('cancelled', 'Deleted.'))
    assert.equal((await deleted).status, 204)
  },
}

for (const [how, end] of Object.entries(ends)) {
  test(`the token of a job ends when ${how}, with its streams`, async () => {
    await pushFiles(service.admin, 'brief', { 'a.txt': 'a' })
    const run = await start('permissions: { contents: read, actions: read }', 'brief')
    await service.admin.post('/repos/brief/workflows', {})
    const other = await mustClaim(service.admin)
    await other.report(...begun())
    const path = `/repos/brief/workflows/${other.plan.runId}/logs`
    await using follower = await followLog(run.job, path)
    assert.notEqual(await follower.next(), '')
    await end(run)
    assert.equal((await run.job.get('/repos/brief')).status, 401)
    await assert.rejects(git('/', ['ls-remote', run.job.remote('brief')]), /Authentication failed/)
    await follower.rest()
    if (how !== 'its repository is deleted') await other.report(runEnded())
    await service.admin.delete('/repos/brief')
  })
}

test('a push that is running when its run ends is refused', async () => {
  await allow('write')
  const run = await start('permissions: { contents: write }')
  const body = await pushBody(project.path, 'late')
  const sending = request(`${service.url}/repos/site.git/git-receive-pack`, {
    method: 'POST',
    headers: { ...gitHeaders('git-receive-pack', run.job.token), expect: '100-continue' },
  })
  const answered = once(sending, 'response')
  sending.flushHeaders()
  await once(sending, 'continue')
  sending.write(body.subarray(0, body.length - 1))
  await run.report(...wholeRun())
  sending.end(body.subarray(-1))
  const [response] = await answered
  let text = ''
  for await (const chunk of response) text += chunk
  assert.equal(response.statusCode, 200)
  assert.match(text, /ng refs\/heads\/late/)
  const { body: branches } = await service.admin.get('/repos/site/branches')
  assert.doesNotMatch(JSON.stringify(branches), /late/)
})

test('requests of steps do not use up those of the runner', exhaustive, async () => {
  await using limited = await startInProcess({
    SVC_REQUESTS_PER_SECOND: '1',
    SVC_REQUEST_BURST: '20',
  })
  const { admin } = limited
  await pushFiles(admin, 'site', { '.svc/workflows/ci.yml': 'steps: [{ run: x }]\n' })
  await admin.post('/repos/site/workflows', {})
  const run = await mustClaim(admin)
  const job = createClient(limited.url, run.plan.identities[0]?.token ?? '')
  const statuses = []
  for (let round = 0; round < 40; round++) statuses.push((await job.get('/repos/site')).status)
  assert.ok(statuses.includes(200) && statuses.includes(429))
  await run.report(...wholeRun())
})

test(
  'a run for which a push waits can only read, and a run cannot wait for others',
  exhaustive,
  async () => {
    await allow('write')
    const text = 'on: push\npermissions: write-all\nsteps: [{ run: x }]\n'
    await pushFiles(service.admin, 'site', { '.svc/workflows/ci.yml': text }, { branch: 'waiting' })
    const [queued] = (await service.admin.get('/repos/site/workflows?limit=1')).body
    await service.admin.post(`/repos/site/workflows/${queued.id}/cancel`)
    await project.git('fetch', '--quiet', service.admin.remote('site'), 'waiting')
    const tree = await project.git('rev-parse', 'FETCH_HEAD^{tree}')
    const next = await project.git('commit-tree', '-p', 'FETCH_HEAD', '-m', 'Next', tree)
    const push = (client: Client) =>
      project.git('push', '-o', 'wait', client.remote('site'), `${next}:refs/heads/waiting`)
    const pushed = push(service.admin)
    const run = await mustClaim(service.admin)
    assert.equal(run.plan.commit, next)
    assert.deepEqual(
      run.plan.identities.map(({ idTokens }) => idTokens),
      [null],
    )
    const job = clientOf(run)
    assert.equal((await job.get('/repos/site')).status, 200)
    const refused = await job.put('/repos/site/refs?ref=refs/heads/w', { target: 'main' })
    assert.equal(refused.status, 403)
    await run.report(...wholeRun())
    await pushed
    const later = await start('permissions: { contents: write }')
    await project.git('push', '--quiet', service.admin.remote('site'), ':refs/heads/waiting')
    await assert.rejects(push(later.job), /A run cannot start or repeat runs/)
    await later.report(...wholeRun())
  },
)

test('a run of a refused push has no more rights when it is run again, until its ref has the commit', async () => {
  await allow('write')
  const text = 'on: push\npermissions: write-all\nsteps: [{ run: x }]\n'
  await pushFiles(service.admin, 'site', { '.svc/workflows/ci.yml': text }, { branch: 'refused' })
  const [queued] = (await service.admin.get('/repos/site/workflows?limit=1')).body
  await service.admin.post(`/repos/site/workflows/${queued.id}/cancel`)
  const remote = service.admin.remote('site')
  await project.git('fetch', '--quiet', remote, 'refused')
  const tree = await project.git('rev-parse', 'FETCH_HEAD^{tree}')
  const next = await project.git('commit-tree', '-p', 'FETCH_HEAD', '-m', 'Next', tree)
  const pushed = project.git('push', '-o', 'wait', remote, `${next}:refs/heads/refused`)
  const refused = assert.rejects(pushed, /nothing was pushed/)
  const run = await mustClaim(service.admin)
  await run.report(...wholeRun('failure'))
  await refused
  const rights = async () => {
    await service.admin.post(`/repos/site/workflows/${run.plan.runId}/rerun`, {})
    const again = await mustClaim(service.admin)
    assert.equal(again.plan.commit, next)
    const [identity] = again.plan.identities
    const branch = '/repos/site/refs?ref=refs/heads/again'
    const { status } = await clientOf(again).put(branch, { target: 'main' })
    await again.report(...wholeRun('failure'))
    return [status, typeof identity?.idTokens?.token]
  }
  await project.git('push', '-o', 'ci.skip', remote, `${next}:refs/heads/elsewhere`)
  assert.deepEqual(await rights(), [403, 'undefined'])
  assert.deepEqual(await rights(), [403, 'undefined'])
  await project.git('push', '-o', 'ci.skip', remote, `${next}:refs/heads/refused`)
  assert.deepEqual(await rights(), [201, 'string'])
})
