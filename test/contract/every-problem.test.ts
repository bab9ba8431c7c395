// Tags: exhaustive
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, connect, createServer } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { newId } from '#base/ids.ts'
import { createOutbound } from '#base/outbound/outbound.ts'
import { Problem, type ProblemCode, problems, toProblem } from '#base/problem.ts'
import { isBusy } from '#base/sqlite-busy.ts'
import { newTokenString } from '#base/token-string.ts'
import { statuses } from '#http/problem-response.ts'
import { until } from '../support/condition.ts'
import { createProject, type Project, temporaryFolder } from '../support/git.ts'
import { type InProcess, startInProcess } from '../support/in-process.ts'
import { sendExchange, startIssuer } from '../support/issuer.ts'
import { publish } from '../support/publish.ts'
import { finishedPushes } from '../support/pushes.ts'
import { cloneBody, gitHeaders } from '../support/raw-git.ts'
import { mustClaim, wholeRun } from '../support/run-by-hand.ts'
import { archiveOf, put } from '../support/run-files.ts'
import { type Answer, type Client, createClient, toAnswer } from '../support/service.ts'
import { newKeyLine } from '../support/ssh-keys.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

let service: InProcess
let project: Project
let member: Client
let admin: Client

before(async () => {
  service = await startInProcess({
    SVC_PUSH_MAX_REFS: '3',
    SVC_JSON_BODY_SECONDS: '1',
    SVC_ARTIFACTS_REPOSITORY_MAX: '4KiB',
    SVC_OIDC_ISSUER: 'http://127.0.0.1:9',
    SVC_OIDC_CLIENT_ID: 'svc',
  })
  project = await createProject()
  admin = createClient(service.url, service.adminToken)
  member = await service.client({ username: 'member', permissions: ['repo:read', 'repo:write'] })
  await admin.post('/repos', { name: 'site' })
  await admin.post('/repos/site/collaborators', { username: 'member' })
  await admin.put('/repos/site/protections/branches/main')
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

const outbound = createOutbound({
  allow: { classes: ['external'], ranges: [], names: [] },
  lookup: () => assert.fail('nothing is looked up'),
})

/** Makes a commit on a branch of a repository. */
async function commitTo(name: string, where: { branch: string; start?: string }): Promise<void> {
  const changes = [{ path: 'a.txt', content: where.branch }]
  await admin.post(`/repos/${name}/commits`, { ...where, message: 'Add a', changes })
}

/** Proposes a change in a new repository; its number. */
async function openChange(name: string): Promise<number> {
  await admin.post('/repos', { name })
  await commitTo(name, { branch: 'main' })
  await commitTo(name, { branch: 'topic', start: 'main' })
  const { body } = await admin.post(`/repos/${name}/changes`, { source: 'topic', target: 'main' })
  return body.number
}

async function cancelledRun(): Promise<{ id: string }> {
  await pushFiles(admin, 'small', oneStep('true'))
  const { body } = await admin.post('/repos/small/workflows', {})
  await admin.post(`/repos/small/workflows/${body.id}/cancel`)
  return body
}

async function runnersRun() {
  await pushFiles(admin, 'small', oneStep('true'))
  const { body } = await admin.post('/repos/small/workflows', {})
  for (;;) {
    const run = await mustClaim(admin)
    if (run.plan.runId === body.id) return run
  }
}

/** A failed run whose workspace is kept; its id. */
async function failedRun(): Promise<string> {
  const run = await runnersRun()
  const workspace = { id: newId(), job: 'steps', keptSeconds: 60, holder: 'the-secret-of-a-runner' }
  assert.equal((await run.own.post(`${run.path}/workspaces`, workspace)).status, 204)
  await run.report(...wholeRun('failure'))
  return run.plan.runId
}

// The service writes in this process: a connection that waited would wait for itself.
function isBegun(database: DatabaseSync): boolean {
  try {
    database.exec('begin immediate')
    return true
  } catch (error) {
    if (!isBusy(error)) throw error
    return false
  }
}

async function addWebhook(name: string): Promise<Answer> {
  await admin.post('/repos', { name })
  return admin.post(`/repos/${name}/webhooks`, { url: 'http://127.0.0.1:9/', events: ['push'] })
}

const rule = {
  ...{ name: 'ci', issuer: 'http://127.0.0.1:9', claims: { sub: 'repo:acme/site:main' } },
  permissions: ['repo:read'],
}

/** Brings about each problem: over HTTP it gives the answer, over Git or in a command what was said. */
const scenarios: Record<ProblemCode, () => Promise<Answer | string>> = {
  malformed_request: () => raw('POST', '/repos', '{"name":', 'application/json'),
  invalid_request: () => admin.post('/repos', { name: 'a..b' }),
  malformed_git_request: () =>
    raw('POST', '/repos/site.git/git-upload-pack', 'zzzz', 'application/x-git-upload-pack-request'),
  token_required: async () => toAnswer(await fetch(`${service.url}/repos`)),
  token_invalid: () => createClient(service.url, newTokenString()).get('/repos'),
  login_refused: () => pageWith(403, '/-/login/callback?state=unknown'),
  provider_unavailable: () => pageWith(503, '/-/login/provider'),
  permission_missing: () => member.get('/tokens'),
  role_insufficient: async () => {
    const writer = await service.client({
      username: 'member',
      permissions: ['collaborator:write'],
    })
    return writer.post('/repos/site/collaborators', { username: 'friend', role: 'admin' })
  },
  owner_required: () => member.put('/repos/site/protections/branches/dev'),
  branch_protected: () => refusedPush(member, 'HEAD:main'),
  tag_protected: async () => {
    await admin.put('/repos/site/protections/tags/v*')
    return refusedPush(member, 'HEAD:refs/tags/v1')
  },
  credentials_leaked: async () => {
    await project.git('switch', '--quiet', '--create', 'leaky')
    await project.commit('deploy.sh', `TOKEN=${newTokenString()}\n`)
    await project.git('switch', '--quiet', 'main')
    return refusedPush(admin, 'leaky')
  },
  lfs_objects_missing: async () => {
    await project.git('switch', '--quiet', '--create', 'pointers')
    const pointer = `oid sha256:${'1'.repeat(64)}\nsize 1\n`
    await project.commit('a.bin', `version https://git-lfs.github.com/spec/v1\n${pointer}`)
    await project.git('switch', '--quiet', 'main')
    return refusedPush(admin, 'pointers')
  },
  namespace_not_found: () => admin.get('/namespaces/never-used'),
  namespace_name_taken: () => admin.post('/namespaces', { name: 'SITE' }),
  namespace_not_empty: async () => {
    await admin.post('/namespaces', { name: 'full' })
    await admin.post('/repos', { name: 'full/house' })
    return admin.delete('/namespaces/full')
  },
  namespace_member_not_found: async () => {
    await admin.post('/namespaces', { name: 'lonely' })
    return admin.delete('/namespaces/lonely/members/member')
  },
  user_not_found: () => admin.get('/users/nobody'),
  user_in_use: () => admin.patch('/users/admin', { disabled: true }),
  user_owns_repositories: async () => {
    const owner = await service.client({ username: 'landlady' })
    await owner.post('/repos', { name: 'house' })
    return admin.delete('/users/landlady')
  },
  run_required: async () => {
    await admin.put('/repos/site/protections/branches/gated', { requires: ['ci.yml'] })
    return refusedPush(admin, 'HEAD:gated')
  },
  status_required: async () => {
    await admin.put('/repos/site/protections/branches/checked', { requires: [{ status: 'build' }] })
    return refusedPush(admin, 'HEAD:checked')
  },
  revision_not_found: () => admin.get('/repos/site/tree?rev=nowhere'),
  revision_ambiguous: async () => {
    await pushMain()
    await project.git(
      'push',
      '--quiet',
      admin.remote('branched'),
      `HEAD^{tree}:refs/remotes/${await shortHead()}`,
    )
    return admin.get(`/repos/branched/tree?rev=${await shortHead()}`)
  },
  path_not_found: async () => {
    await pushMain()
    return admin.get('/repos/branched/tree?rev=main&path=nowhere')
  },
  file_binary: async () => {
    await pushFiles(admin, 'images', { 'dot.png': '\0' })
    return admin.get('/repos/images/blame?path=dot.png')
  },
  ref_not_found: async () => {
    await pushMain()
    return admin.patch('/repos/branched', { defaultBranch: 'nowhere' })
  },
  default_branch_deletion: async () => {
    await pushMain()
    const deletion = project.git('push', admin.remote('branched'), ':main')
    return deletion.then(
      () => assert.fail('the branch was deleted'),
      ({ stderr }) => stderr,
    )
  },
  ref_name_refused: () => refusedPush(admin, 'HEAD:refs/replace/x'),
  too_many_ref_updates: () =>
    refusedPush(admin, ...['a', 'b', 'c', 'd'].map((name) => `HEAD:refs/heads/${name}`)),
  origin_forbidden: async () =>
    toAnswer(
      await fetch(`${service.url}/mcp`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${admin.token}`,
          'content-type': 'application/json',
          origin: 'http://elsewhere.example',
        },
        body: '{"jsonrpc":"2.0","id":1,"method":"ping"}',
      }),
    ),
  source_forbidden: () => member.post('/repos/import', { source: project.path, name: 'copy' }),
  import_failed: async () => {
    const answer = await admin.post('/repos/import', { source: '/dev/null', name: 'copy' })
    assert.equal((await admin.get('/repos/copy')).status, 404)
    return answer
  },
  repository_importing: async () => {
    // It accepts connections, and says nothing.
    const silent = createServer().listen(0, '127.0.0.1')
    await once(silent, 'listening')
    // A TCP server's address is neither null nor a path once it listens.
    const { port } = silent.address() as AddressInfo
    const source = `git://127.0.0.1:${port}/x.git`
    const headers = { authorization: `Bearer ${service.adminToken}`, prefer: 'respond-async' }
    const started = await fetch(`${service.url}/repos/import`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ source, name: 'slow' }),
    })
    assert.equal(started.status, 202)
    const answer = await admin.patch('/repos/slow', { name: 'fast' })
    await admin.delete('/repos/slow')
    silent.close()
    return answer
  },
  lfs_request_invalid: () => lfs('batch', { operation: 'none' }),
  lfs_hash_unsupported: () => lfs('batch', { operation: 'download', hash_algo: 'sha512' }),
  too_many_lfs_objects: () =>
    lfs('batch', { operation: 'download', objects: new Array(1001).fill({}) }),
  lfs_object_not_found: () => lfs('verify', { oid: '0'.repeat(64), size: 1 }),
  lfs_object_invalid: () => admin.put(`/repos/site.git/info/lfs/objects/${'0'.repeat(64)}`, {}),
  lfs_lock_not_found: () => admin.post(`${locks}/${newId()}/unlock`, {}),
  async lfs_lock_exists() {
    await admin.post(locks, { path: 'locked' })
    const answer = await member.post(locks, { path: 'locked' })
    assert.equal(answer.body.lock.path, 'locked')
    return answer
  },
  async lfs_lock_owned() {
    await admin.post(locks, { path: 'owned' })
    const { body } = await admin.get(`${locks}?path=owned`)
    return member.post(`${locks}/${body.locks[0].id}/unlock`, { force: true })
  },
  async path_locked() {
    await admin.post('/repos', { name: 'with-lock' })
    await admin.post('/repos/with-lock/collaborators', { username: 'member' })
    await admin.post('/repos/with-lock.git/info/lfs/locks', { path: 'a.txt' })
    const changes = [{ path: 'a.txt', content: 'x' }]
    return member.post('/repos/with-lock/commits', { branch: 'main', message: 'x', changes })
  },
  change_not_found: () => admin.get('/repos/site/changes/999'),
  async change_closed() {
    const number = await openChange('closed')
    await admin.patch(`/repos/closed/changes/${number}`, { state: 'abandoned' })
    return admin.post(`/repos/closed/changes/${number}/land`, { method: 'merge' })
  },
  async approval_required() {
    const number = await openChange('reviewed')
    await admin.put('/repos/reviewed/protections/branches/main', { approvals: 1 })
    return admin.post(`/repos/reviewed/changes/${number}/land`, { method: 'merge' })
  },
  async comment_not_found() {
    const number = await openChange('commented')
    return admin.patch(`/repos/commented/changes/${number}/comments/${newId()}`, { text: 'x' })
  },
  async too_many_comments() {
    const number = await openChange('talkative')
    const path = `/repos/talkative/changes/${number}/comments`
    await admin.post(path, { text: 'x' })
    const { db } = service
    const [comment] = await db.selectFrom('changeComments').selectAll().execute()
    assert.ok(comment)
    for (let batch = 0; batch < 20; batch++) {
      const others = Array.from({ length: 1000 }, () => ({ ...comment, id: newId() }))
      await db.insertInto('changeComments').values(others).execute()
    }
    return admin.post(path, { text: 'one more' })
  },
  async verdict_refused() {
    const number = await openChange('own')
    const verdict = { verdict: 'approve', version: 1 }
    return admin.put(`/repos/own/changes/${number}/verdict`, verdict)
  },
  async version_outdated() {
    const number = await openChange('outdated')
    await admin.post('/repos/outdated/collaborators', { username: 'member', role: 'read' })
    const verdict = { verdict: 'approve', version: 2 }
    const reviewer = await service.client({ username: 'member', permissions: ['change:write'] })
    return reviewer.put(`/repos/outdated/changes/${number}/verdict`, verdict)
  },
  async too_many_changes() {
    await openChange('many')
    const [change] = await service.db.selectFrom('changes').selectAll().execute()
    assert.ok(change)
    const { db } = service
    const repository = db.selectFrom('repositories').select('id').where('name', '=', 'many')
    const { id } = await repository.executeTakeFirstOrThrow()
    const others = Array.from({ length: 1000 }, (_, index) => {
      return { ...change, repositoryId: id, number: index + 2, source: '', state: 'open' as const }
    })
    await db.insertInto('changes').values(others).execute()
    await commitTo('many', { branch: 'next', start: 'main' })
    return admin.post('/repos/many/changes', { source: 'next', target: 'main' })
  },
  async too_many_statuses() {
    const commit = await pushFiles(admin, 'reported', { 'a.txt': 'a' })
    const path = `/repos/reported/commits/${commit}/statuses`
    await admin.post(path, { context: 'ci', state: 'success' })
    const { db } = service
    const [status] = await db.selectFrom('commitStatuses').selectAll().execute()
    assert.ok(status)
    const others = Array.from({ length: 999 }, (_, index) => {
      const number = `${index}`
      return { ...status, id: status.id + number, context: status.context + number }
    })
    await db.insertInto('commitStatuses').values(others).execute()
    return admin.post(path, { context: 'one more', state: 'success' })
  },
  async too_many_lfs_locks() {
    const change = (by: number) =>
      service.db
        .updateTable('repositories')
        .set((is) => ({ lfsLocks: is('lfsLocks', '+', by) }))
        .where('name', '=', 'site')
        .execute()
    await change(10_000)
    const answer = await admin.post(locks, { path: 'one-more' })
    await change(-10_000)
    return answer
  },
  lfs_not_supported: () => admin.post('/repos/site.git/info/lfs/other', {}),
  route_not_found: () => admin.get('/nowhere'),
  repository_not_found: () => admin.get('/repos/nowhere'),
  protection_not_found: () => admin.delete('/repos/site/protections/branches/dev'),
  collaborator_not_found: () => admin.delete('/repos/site/collaborators/nobody'),
  workflow_not_found: async () => {
    await pushFiles(admin, 'plain', { 'a.txt': 'a' })
    return admin.post('/repos/plain/workflows', {})
  },
  workflow_invalid: async () => {
    await pushFiles(admin, 'faulty', { '.svc/workflows/ci.yml': 'jobs: 1\n' })
    return admin.post('/repos/faulty/workflows', {})
  },
  too_many_runs: async () => {
    await pushFiles(admin, 'busy', oneStep('true'))
    const { body } = await admin.post('/repos/busy/workflows', {})
    const runs = service.db.selectFrom('runs').selectAll().where('id', '=', body.id)
    const run = await runs.executeTakeFirstOrThrow()
    const copies = Array.from({ length: 499 }, (_, n) => ({
      ...run,
      id: newId(),
      number: 1000 + n,
    }))
    for (let at = 0; at < copies.length; at += 100)
      await service.db
        .insertInto('runs')
        .values(copies.slice(at, at + 100))
        .execute()
    return admin.post('/repos/busy/workflows', {})
  },
  checks_busy: async () => {
    const contents = [{ path: 'ci.yml', text: `env:\n${'  A: 1\n'.repeat(2000)}` }]
    const answers = await Promise.all(
      Array.from({ length: 300 }, () => admin.post('/repos/site/workflows/validate', { contents })),
    )
    return answers.find(({ status }) => status === 503) ?? assert.fail('none was refused')
  },
  push_not_found: () => admin.get('/repos/site/pushes/nothing'),
  ref_moved: async () => {
    await pushMain()
    return commit({ expectedHead: 'f'.repeat(40) })
  },
  not_fast_forward: async () => {
    await diverge()
    return merge('fast-forward')
  },
  merge_conflict: async () => {
    await diverge()
    return merge('merge')
  },
  histories_unrelated: async () => {
    await pushMain()
    await project.git('switch', '--quiet', '--orphan', 'apart')
    await project.commit('apart.txt')
    await project.git('push', '--quiet', '--force', admin.remote('branched'), 'apart:topic')
    await project.git('switch', '--quiet', 'main')
    return merge('merge')
  },
  too_many_commits: async () => {
    await diverge()
    const tree = await project.git('rev-parse', 'HEAD^{tree}')
    let tip = await project.git('rev-parse', 'HEAD~1')
    for (let count = 0; count <= 250; count++)
      tip = await project.git('commit-tree', '-p', tip, '-m', `${count}`, tree)
    await project.git('push', '--quiet', '--force', admin.remote('branched'), `${tip}:topic`)
    return merge('rebase')
  },
  update_refused: async () => {
    await pushMain()
    return commit({ branch: 'main/below', start: 'main' })
  },
  objects_refused: async () => {
    await pushMain()
    return commit({ changes: [{ path: '.git/config', content: '' }] })
  },
  path_absent: async () => {
    await pushMain()
    return commit({ changes: [{ path: 'nowhere', delete: true }] })
  },
  path_conflict: async () => {
    await pushMain()
    return commit({ changes: [{ path: 'readme.txt/below', content: '' }] })
  },
  nothing_changed: async () => {
    await pushMain()
    return commit({ changes: [] })
  },
  ref_absent: async () => {
    await pushMain()
    return admin.delete('/repos/branched/refs?ref=refs/heads/nowhere')
  },
  push_not_undoable: async () => {
    await admin.post('/repos', { name: 'moved' })
    await project.git('push', '--quiet', admin.remote('moved'), 'HEAD:main')
    const [made] = await finishedPushes(service, admin, 'moved')
    const { path } = (await admin.get('/repos/moved')).body
    await project.git(`--git-dir=${path}`, 'update-ref', '-d', 'refs/heads/main')
    return admin.post(`/repos/moved/pushes/${made?.id}/undo`)
  },
  events_forgotten: async () => {
    for (const name of ['first', 'second', 'third']) await admin.post('/tokens', { name })
    const [, second] = (await admin.get('/events?kind=token.created')).body
    await service.db.deleteFrom('events').where('seq', '<=', second.seq).execute()
    return admin.get('/events?after=1')
  },
  run_not_found: () => admin.get('/repos/site/workflows/nothing'),
  shell_not_found: async () => {
    const { id } = await cancelledRun()
    return admin.delete(`/repos/small/workflows/${id}/shells/nothing`)
  },
  workspace_removed: async () => {
    const { id } = await cancelledRun()
    return admin.post(`/repos/small/workflows/${id}/shells`, {})
  },
  shell_open: async () => {
    const path = `/repos/small/workflows/${await failedRun()}/shells`
    assert.equal((await admin.post(path, {})).status, 201)
    return admin.post(path, {})
  },
  runner_unreachable: async () => {
    const id = await failedRun()
    await service.db
      .updateTable('failedWorkspaces')
      .set({ seenAt: Date.now() - 120_000 })
      .where('runId', '=', id)
      .execute()
    return admin.post(`/repos/small/workflows/${id}/shells`, {})
  },
  artifact_not_found: async () => {
    const { id } = await cancelledRun()
    return admin.get(`/repos/small/workflows/${id}/artifacts/nothing`)
  },
  cache_not_found: () => admin.delete('/repos/site/caches/nothing'),
  artifact_unreadable: async () => {
    const run = await runnersRun()
    await put(run, 'artifacts?name=a', randomBytes(100))
    return admin.get(`/repos/small/workflows/${run.plan.runId}/artifacts/a`)
  },
  artifact_exists: async () => {
    const run = await runnersRun()
    await put(run, 'artifacts?name=a', archiveOf('a', 'a'))
    return put(run, 'artifacts?name=a', archiveOf('a', 'a'))
  },
  artifact_quota_exceeded: async () =>
    put(await runnersRun(), 'artifacts?name=a', randomBytes(5000)),
  run_completed: async () => {
    const { id } = await cancelledRun()
    return admin.post(`/repos/small/workflows/${id}/cancel`)
  },
  run_not_completed: async () => {
    await pushFiles(admin, 'small', oneStep('true'))
    const { body } = await admin.post('/repos/small/workflows', {})
    return admin.post(`/repos/small/workflows/${body.id}/rerun`, {})
  },
  secret_not_found: () => admin.delete('/repos/site/secrets/NOTHING'),
  too_many_repositories: async () => {
    await admin.post('/namespaces', { name: 'limited' })
    await admin.patch('/namespaces/limited', { maxRepositories: 0 })
    return admin.post('/repos', { name: 'limited/site' })
  },
  namespace_full: async () => {
    await admin.post('/namespaces', { name: 'full' })
    await admin.patch('/namespaces/full', { maxBytes: 0 })
    await admin.post('/repos', { name: 'full/site' })
    const changes = [{ path: 'a', content: 'a' }]
    return admin.post('/repos/full%2Fsite/commits', { branch: 'main', message: 'x', changes })
  },
  too_many_renames: async () => {
    const { body } = await admin.post('/repos', { name: 'restless' })
    const names = Array.from({ length: 100 }, (_, at) => `restless-${at}`)
    const row = { repositoryId: body.id, freedAt: Date.now() }
    const rows = names.map((name) => ({ ...row, name, nameKey: name }))
    await service.db.insertInto('formerNames').values(rows).execute()
    return admin.patch('/repos/restless', { name: 'settled' })
  },
  too_many_secrets: async () => {
    const save = (at: number) => admin.put(`/repos/site/secrets/S${at}`, { value: 'hush' })
    const saved = await Promise.all(Array.from({ length: 105 }, (_, at) => save(at)))
    const refused = saved.filter(({ status }) => status !== 200)
    assert.ok(refused[0] && refused.length === 5)
    assert.equal((await admin.get('/repos/site/secrets')).body.length, 100)
    return refused[0]
  },
  encryption_key_missing: async () => {
    await using folder = await temporaryFolder()
    await writeFile(join(folder.path, 'svc.db'), '')
    await using keyless = await startInProcess({ SVC_DATA_DIR: folder.path })
    await keyless.admin.post('/repos', { name: 'site' })
    assert.deepEqual((await keyless.admin.get('/repos/site/secrets')).body, [])
    return await keyless.admin.put('/repos/site/secrets/TOKEN', { value: 'hush' })
  },
  secret_unreadable: async () => {
    await using damaged = await startInProcess()
    const { body } = await damaged.admin.post('/repos', { name: 'site' })
    await damaged.admin.put('/repos/site/secrets/TOKEN', { value: 'hush' })
    await sql`update secrets set name = 'OTHER'`.execute(damaged.db)
    return await refusal(damaged.secrets.open(body.id))
  },
  webhook_not_found: () => admin.get('/repos/site/webhooks/nothing'),
  delivery_not_found: async () => {
    const { body } = await addWebhook('hooked')
    return admin.post(`/repos/hooked/webhooks/${body.id}/deliveries/nothing/retry`)
  },
  too_many_webhooks: async () => {
    const made = await Promise.all(Array.from({ length: 22 }, () => addWebhook('crowded')))
    const [refused, ...others] = made.filter(({ status }) => status !== 201)
    assert.ok(refused && others.length === 1)
    assert.equal((await admin.get('/repos/crowded/webhooks')).body.length, 20)
    return refused
  },
  token_not_found: () => admin.delete('/tokens/nothing'),
  ssh_key_not_found: () => member.delete('/keys/nothing'),
  ssh_key_taken: async () => {
    const key = { name: 'laptop', publicKey: newKeyLine() }
    await member.post('/keys', key)
    return admin.post('/keys', key)
  },
  too_many_trust_rules: async () => {
    const owner = await service.client({
      username: 'ruler',
      permissions: ['repo:write', 'collaborator:write', 'repo:read'],
    })
    await owner.post('/repos', { name: 'ruled' })
    const added = await Promise.all(
      Array.from({ length: 101 }, () =>
        owner.post('/trust-rules', { ...rule, repositories: ['ruled'] }),
      ),
    )
    const [refused, ...others] = added.filter(({ status }) => status !== 201)
    assert.ok(refused && others.length === 0)
    return refused
  },
  trust_rule_not_found: () => admin.delete('/trust-rules/none'),
  exchange_refused: async () => toAnswer(await sendExchange(service, 'no JWT')),
  issuer_unavailable: async () => {
    await admin.post('/trust-rules', { ...rule, repositories: ['site'] })
    await using issuer = await startIssuer()
    return toAnswer(await sendExchange(service, await issuer.sign({ iss: rule.issuer })))
  },
  too_many_ssh_keys: async () => {
    const collector = await service.client({ username: 'collector' })
    const add = () => collector.post('/keys', { name: 'one more', publicKey: newKeyLine() })
    const added = await Promise.all(Array.from({ length: 101 }, add))
    const [refused, ...others] = added.filter(({ status }) => status !== 201)
    assert.ok(refused && others.length === 0)
    assert.equal((await collector.get('/keys')).body.length, 100)
    return refused
  },
  method_not_allowed: () => admin.delete('/repos'),
  request_timed_out: slowBody,
  repository_name_taken: () => admin.post('/repos', { name: 'SITE' }),
  token_limited: async () => {
    const { body } = await admin.post('/tokens', { name: 'agent', repositories: ['site'] })
    return createClient(service.url, body.token).post('/repos', { name: 'another' })
  },
  too_many_delegated_tokens: async () => {
    const { body } = await member.post('/tokens/delegate', { name: 'part' })
    const row = await service.db
      .selectFrom('tokens')
      .selectAll()
      .where('id', '=', body.id)
      .executeTakeFirstOrThrow()
    const others = Array.from({ length: 998 }, (_, index) => ({
      ...row,
      id: newId(),
      tokenHash: `hash ${index}`,
    }))
    await service.db.insertInto('tokens').values(others).execute()
    assert.equal((await member.post('/tokens/delegate', { name: 'part' })).status, 201)
    return member.post('/tokens/delegate', { name: 'part' })
  },
  token_in_use: async () => {
    const [{ id }] = (await admin.get('/tokens')).body
    return admin.delete(`/tokens/${id}`)
  },
  body_too_large: () => admin.post('/repos', { name: 'x'.repeat(1024 * 1024) }),
  unsupported_media_type: () => raw('POST', '/repos', '{}', 'text/plain'),
  headers_too_large: () => speak(`GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`),
  username_unknown: () =>
    refusal(
      import('#identity/tokens/tokens.ts').then(({ createTokens }) => {
        const clock = { now: () => Date.now() }
        const log = { debug() {}, info() {}, warn() {}, error() {} }
        const repositories = { idsOf: async () => [], namesOf: async () => new Map() }
        const tokens = createTokens({ db: service.db, publish, clock, log, repositories })
        return tokens.ownerNamed('nobody')
      }),
    ),
  outbound_forbidden: () => refusal(outbound.resolve('169.254.169.254')),
  outbound_unresolved: () => refusal(outbound.resolve('a..b')),
  too_many_bad_tokens: async () => {
    await using strict = await startInProcess({ SVC_BAD_TOKENS_PER_MINUTE: '1' })
    const stranger = createClient(strict.url, newTokenString())
    await stranger.get('/repos')
    const answer = await stranger.get('/repos')
    assert.equal((await strict.admin.get('/repos')).status, 200)
    assertRetryAfter(answer)
    return answer
  },
  too_many_requests: async () => {
    const env = { SVC_REQUESTS_PER_SECOND: '1', SVC_REQUEST_BURST: '2' }
    await using strict = await startInProcess(env)
    await Promise.all([strict.admin.get('/repos'), strict.admin.get('/repos')])
    const answer = await strict.admin.get('/repos')
    assertRetryAfter(answer)
    return answer
  },
  repository_damaged: async () => {
    const { body } = await admin.post('/repos', { name: 'broken' })
    await rm(`${body.path}/HEAD`)
    await assert.rejects(
      project.git('ls-remote', admin.remote('broken')),
      /remote: The files of this repository are damaged/,
    )
    return admin.get('/repos/broken')
  },
  internal_error: async () => {
    await using broken = await startInProcess()
    await sql`drop table collaborators`.execute(broken.db)
    const answer = await broken.admin.get('/repos/site')
    assert.doesNotMatch(answer.text, /collaborators|sqlite|\.ts|node_modules/i)
    return answer
  },
  git_busy: async () => {
    await using strict = await startInProcess({ SVC_GIT_WAITING: '0', SVC_FETCHES_AT_ONCE: '1' })
    await strict.admin.post('/repos', { name: 'site' })
    // More than sockets hold, for a client that does not read it.
    const tip = await project.commit('large.bin', randomBytes(16 * 1024 * 1024).toString('latin1'))
    await project.git('push', '--quiet', strict.admin.remote('site'), 'HEAD:main')
    const held = await holdFetch(strict, cloneBody(tip))
    const answer = await tryFetch(strict, cloneBody(tip))
    held.destroy()
    assertRetryAfter(answer)
    return answer
  },
  git_limit_exceeded: async () => {
    await using strict = await startInProcess({ SVC_GIT_MEMORY_MAX: '64MiB' })
    await strict.admin.post('/repos', { name: 'site' })
    const message = 'x'.repeat(80_000_000)
    await writeFile(join(project.path, 'message'), message)
    await project.git('tag', '--annotate', '--file=message', '--cleanup=verbatim', 'large')
    await project.git('push', '--quiet', strict.admin.remote('site'), 'large')
    await project.git('tag', '--delete', 'large')
    const {
      'content-type': _,
      'content-length': _size,
      ...headers
    } = gitHeaders('git-upload-pack', strict.adminToken, 0)
    const address = `${strict.url}/repos/site.git/info/refs?service=git-upload-pack`
    return toAnswer(await fetch(address, { headers: headers as Record<string, string> }))
  },
  database_unavailable: async () => {
    await using locked = await startInProcess()
    const other = new DatabaseSync(`${locked.dataDir}/svc.db`)
    await until('no other transaction writes', () => isBegun(other))
    const answer = await locked.admin.post('/repos', { name: 'site' })
    other.close()
    assertRetryAfter(answer)
    assert.equal((await locked.admin.post('/repos', { name: 'site' })).status, 201)
    return answer
  },
  storage_unavailable: async () => {
    await using astray = await startInProcess()
    await rm(join(astray.dataDir, 'repositories'), { recursive: true })
    return await until('the data directory is missed', async () => {
      const answer = await toAnswer(await fetch(`${astray.url}/health`))
      return answer.status !== 200 && answer
    })
  },
  too_many_connections: async () => {
    await using strict = await startInProcess({ SVC_HTTP_CONNECTIONS: '4' })
    const [client, gone] = [await strict.client(), new AbortController()]
    const headers = { authorization: `Bearer ${client.token}` }
    await fetch(`${strict.url}/events?follow=true`, { headers, signal: gone.signal })
    const answer = await client.get('/repos')
    gone.abort()
    assertRetryAfter(answer)
    return answer
  },
  too_many_followers: async () => {
    const [client, gone] = [await service.client(), new AbortController()]
    const headers = { authorization: `Bearer ${client.token}` }
    const init = { headers, signal: gone.signal }
    const followed = Array.from({ length: 100 }, () =>
      fetch(`${service.url}/events?follow=true`, init),
    )
    // The body of an abandoned response is cancelled.
    const held = await Promise.all(followed)
    const answer = await client.get('/events?wait=1')
    assert.ok(held.every(({ status }) => status === 200))
    gone.abort()
    assertRetryAfter(answer)
    return answer
  },
  storage_full: async () => {
    await using full = await startInProcess()
    // No page more than there are: what SQLite meets on a full disk.
    await sql`pragma max_page_count = 1`.execute(full.db)
    let answer = await full.admin.post('/tokens', { name: 'x'.repeat(100) })
    while (answer.status === 201)
      answer = await full.admin.post('/tokens', { name: 'x'.repeat(100) })
    assert.equal((await full.admin.get('/repos')).status, 200)
    return answer
  },
}

for (const [code, scenario] of Object.entries(scenarios)) {
  test(`${code} is returned to the client`, async () => {
    // Object.entries forgets that the keys are those of the table.
    const { kind, title } = problems[code as ProblemCode]
    const response = await scenario()
    if (typeof response === 'string') return assert.ok(response.length > 0)
    assert.equal(response.status, statuses[kind], response.text)
    assert.doesNotMatch(response.text, /node_modules|\.ts:|at \w+ \(/)
    if (response.headers.get('content-type')?.startsWith('text/plain')) return
    const isOfLfs = code.includes('lfs_')
    const type = isOfLfs ? 'application/vnd.git-lfs+json' : 'application/problem+json'
    assert.equal(response.headers.get('content-type'), type)
    assert.deepEqual([response.body.code, response.body.title], [code, title])
    assert.equal(response.body.status, response.status)
    assert.match(response.body.detail, /\w.*\.$/s)
    assert.equal(response.body.type, `/docs#${code}`)
  })
}

test('errors of the disk and the database become problems', () => {
  const codeOf = (fields: object) => toProblem(Object.assign(new Error('x'), fields)).code
  assert.equal(codeOf({ code: 'ENOSPC' }), 'storage_full')
  assert.equal(codeOf({ code: '53100' }), 'storage_full')
  assert.equal(codeOf({ code: '57P01' }), 'database_unavailable')
  assert.equal(codeOf({ code: '40P01' }), 'database_unavailable')
  assert.equal(codeOf({ code: 'ECONNREFUSED' }), 'database_unavailable')
  assert.equal(codeOf({ errcode: 5 }), 'database_unavailable')
  assert.equal(codeOf({}), 'internal_error')
  assert.equal(toProblem('x').code, 'internal_error')
})

const locks = '/repos/site.git/info/lfs/locks'
const lfs = (path: string, body: object) =>
  admin.post(`/repos/site.git/info/lfs/objects/${path}`, body)

async function raw(method: string, path: string, body: string, type: string): Promise<Answer> {
  const headers = { authorization: `Bearer ${service.adminToken}`, 'content-type': type }
  return toAnswer(await fetch(service.url + path, { method, headers, body }))
}

/** Makes a repository whose only branch is `main`, unless it is there. */
/** The first digits of the id of HEAD. */
async function shortHead(): Promise<string> {
  return project.git('rev-parse', '--short=7', 'HEAD')
}

async function pushMain(): Promise<void> {
  await admin.post('/repos', { name: 'branched' })
  await project.git('push', '--quiet', '--force', admin.remote('branched'), 'HEAD:main')
}

/** Pushes `main` and `topic`, which conflict. */
async function diverge(): Promise<void> {
  const before = await project.git('rev-parse', 'HEAD')
  await project.commit('readme.txt', 'theirs')
  await admin.post('/repos', { name: 'branched' })
  await project.git('push', '--quiet', '--force', admin.remote('branched'), 'HEAD:topic')
  await project.git('reset', '--quiet', '--hard', before)
  await project.commit('readme.txt', `ours ${before}`)
  await pushMain()
}

function commit(fields: object): Promise<Answer> {
  const changes = [{ path: 'new.txt', content: 'new' }]
  return admin.post('/repos/branched/commits', {
    ...{ branch: 'main', message: 'Change', changes },
    ...fields,
  })
}

const merge = (method: string) =>
  admin.post('/repos/branched/merges', { base: 'main', head: 'topic', method })

async function refusedPush(client: Client, ...refspecs: string[]): Promise<string> {
  const before = await project.git('ls-remote', admin.remote('site'))
  const push = project.git('push', client.remote('site'), ...refspecs)
  const error = await push.then(
    () => assert.fail('the push was let in'),
    (fault) => fault,
  )
  assert.match(error.stderr, /remote: \w.*\.\s/)
  assert.equal(await project.git('ls-remote', admin.remote('site')), before)
  return error.stderr
}

async function refusal(attempt: Promise<unknown>): Promise<string> {
  const error = await attempt.then(
    () => undefined,
    (fault) => fault,
  )
  assert.ok(error instanceof Problem)
  return error.message
}

/** The text of a page, which has a problem. */
async function pageWith(status: number, path: string): Promise<string> {
  const { text, ...response } = await toAnswer(await fetch(service.url + path))
  assert.equal(response.status, status)
  assert.doesNotMatch(text, /127\.0\.0\.1|ECONNREFUSED/)
  return text
}

function slowBody(): Promise<Answer> {
  return speak(
    `POST /repos HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${service.adminToken}\r\n` +
      'Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{"name"',
  )
}

/** Sends bytes, and reads one answer. */
function speak(text: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(service.url).port), '127.0.0.1')
    let answer = ''
    socket.setEncoding('latin1').on('error', reject)
    socket.on('data', (chunk) => {
      answer += chunk
      const [head = '', body = ''] = answer.split('\r\n\r\n')
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1])
      if (body.length < length || Number.isNaN(length)) return
      socket.destroy()
      const [, status] = /^HTTP\/1\.1 (\d+)/.exec(head) ?? []
      const headers = head
        .split('\r\n')
        .slice(1)
        .map((line) => line.split(': ', 2) as [string, string])
      toAnswer(new Response(body, { status: Number(status), headers })).then(resolve, reject)
    })
    socket.write(text)
  })
}

/** Begins a fetch, and stops reading when the answer has begun. */
async function holdFetch({ url, adminToken }: InProcess, body: Buffer) {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.on('error', () => {})
  const head = Object.entries(gitHeaders('git-upload-pack', adminToken, body.length))
  socket.write(
    `POST /repos/site.git/git-upload-pack HTTP/1.1\r\nHost: x\r\n${head.map((pair) => `${pair.join(': ')}\r\n`).join('')}\r\n`,
  )
  socket.write(body)
  await once(socket, 'data')
  socket.pause()
  return socket
}

async function tryFetch({ url, adminToken }: InProcess, body: Buffer): Promise<Answer> {
  const { 'content-length': _, ...headers } = gitHeaders('git-upload-pack', adminToken, body.length)
  const init = { method: 'POST', headers: headers as Record<string, string>, body }
  return toAnswer(await fetch(`${url}/repos/site.git/git-upload-pack`, init))
}

function assertRetryAfter(answer: Answer): void {
  assert.ok(Number(answer.headers.get('retry-after')) > 0)
}
