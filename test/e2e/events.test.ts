// Tags: each-store
import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { newTokenString } from '#base/token-string.ts'
import { eventKinds } from '#events/events.ts'
import { until } from '../support/condition.ts'
import { createProject, git, type Project } from '../support/git.ts'
import { type InProcess, startInProcess } from '../support/in-process.ts'
import { mustClaim, wholeRun } from '../support/run-by-hand.ts'
import type { Client } from '../support/service.ts'
import { newKeyLine } from '../support/ssh-keys.ts'
import { toEnded } from '../support/ssh-user.ts'

let service: InProcess
let project: Project
let owner: Client

before(async () => {
  project = await createProject()
  await project.git('checkout', '--quiet', '-b', 'flows')
  await mkdir(join(project.path, '.svc/workflows'), { recursive: true })
  await project.commit('.svc/workflows/ci.yml', 'steps: [{ run: true }]')
  await project.git('checkout', '--quiet', 'main')
  service = await startInProcess({ SVC_IMPORT_LOCAL_ROOTS: project.path })
  owner = await service.client({
    username: 'ada',
    permissions: [
      ...['status:write', 'change:write'],
      ...['repo:read', 'repo:write', 'repo:delete', 'collaborator:write', 'secrets:write'],
      'workflow:trigger',
      ...['webhook:read', 'webhook:write'],
    ],
  })
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

test('every change is an event, numbered in order, with its actor', async () => {
  const reviewer = await service.client({ username: 'eve', permissions: ['admin'] })
  await service.db.deleteFrom('events').execute()
  await owner.post('/repos', { name: 'site' })
  await owner.patch('/repos/site', { description: 'Our site' })
  await owner.patch('/repos/site', { leakGuard: true })
  await owner.patch('/repos/site', { runTokens: 'write' })
  await owner.patch('/repos/site', { visibility: 'internal' })
  await owner.patch('/repos/site', { visibility: 'internal' })
  await owner.patch('/repos/site', { leakGuard: false })
  await owner.patch('/repos/site', { leakGuard: true })
  await owner.put('/repos/site/protections/branches/main')
  await owner.put('/repos/site/protections/branches/main', { owners: 'none' })
  await owner.put('/repos/site/protections/branches/main')
  await owner.delete('/repos/site/protections/branches/main')
  await owner.post('/repos/site/collaborators', { username: 'grace' })
  await owner.post('/repos/site/collaborators', { username: 'grace', role: 'read' })
  await owner.post('/repos/site/collaborators', { username: 'grace' })
  await owner.delete('/repos/site/collaborators/grace')
  await owner.put('/repos/site/secrets/TOKEN', { value: 'hush-hush' })
  await owner.delete('/repos/site/secrets/TOKEN')
  await owner.delete('/repos/site/secrets/TOKEN')
  const locks = '/repos/site.git/info/lfs/locks'
  const { body: locked } = await owner.post(locks, { path: 'logo.psd' })
  await owner.post(locks, { path: 'logo.psd' })
  await owner.post(`${locks}/${locked.lock.id}/unlock`, {})
  await owner.post(`${locks}/${locked.lock.id}/unlock`, {})
  await changeWebhooks()
  await owner.patch('/repos/site', { name: 'page' })
  await owner.patch('/repos/page', { name: 'page' })
  await project.git('push', '--quiet', owner.remote('page'), 'main:main', 'flows:flows')
  await until('the push is finished', isFinished)
  await pushLeak()
  await until('the second push is finished', isFinished)
  await owner.patch('/repos/page', { defaultBranch: 'flows' })
  const tip = (await project.git('rev-parse', 'main')).trim()
  await owner.post(`/repos/page/commits/${tip}/statuses`, { context: 'ci', state: 'success' })
  const commitTo = (content: string) => {
    const changes = [{ path: 'topic.txt', content }]
    const commit = { branch: 'topic', message: 'Go on', changes }
    return owner.post(
      '/repos/page/commits',
      content === '1' ? { ...commit, start: 'main' } : commit,
    )
  }
  await commitTo('1')
  await owner.post('/repos/page/changes', { source: 'topic', target: 'main' })
  await commitTo('2')
  await owner.patch('/repos/page/changes/1', { title: 'Go far' })
  const { body: comment } = await owner.post('/repos/page/changes/1/comments', { text: 'Why?' })
  await owner.patch(`/repos/page/changes/1/comments/${comment.id}`, { resolved: true })
  const verdict = { verdict: 'approve', version: 2 }
  await reviewer.put('/repos/page/changes/1/verdict', verdict)
  await owner.put('/repos/page/protections/branches/main', {
    queue: true,
    requires: [{ status: 'x' }],
  })
  await owner.post('/repos/page/changes/1/land', { method: 'merge' })
  await until('a trial', async () => (await owner.get('/repos/page/queue')).body[0]?.trials[0])
  await owner.delete('/repos/page/changes/1/land')
  await owner.delete('/repos/page/protections/branches/main')
  await owner.post('/repos/page/changes/1/land', { method: 'merge' })
  const { body: run } = await owner.post('/repos/page/workflows', { branch: 'flows' })
  await (await mustClaim(service.admin)).report(...wholeRun())
  await owner.post(`/repos/page/workflows/${run.id}/rerun`, {})
  await owner.post(`/repos/page/workflows/${run.id}/cancel`)
  const { body: page } = await owner.get('/repos/page')
  await owner.delete('/repos/page')
  await owner.post(`/deleted-repos/${page.id}/restore`, { name: 'site' })
  await owner.delete('/repos/site')
  await owner.delete(`/deleted-repos/${page.id}`)
  await owner.post('/repos/import', { source: project.path, name: 'copy' })
  await owner.patch('/repos/copy', { ownerUsername: service.admin.username })
  await service.admin.post('/namespaces', { name: 'acme' })
  await service.admin.put('/namespaces/acme/members/owner', { role: 'read' })
  await service.admin.delete('/namespaces/acme/members/owner')
  await service.admin.patch('/namespaces/acme', { name: 'apex' })
  await service.admin.patch('/namespaces/apex', { maxBytes: 0 })
  await service.admin.delete('/namespaces/apex')
  const { body: token } = await service.admin.post('/tokens', { name: 'x' })
  await service.admin.delete(`/tokens/${token.id}`)
  await service.admin.patch(`/users/${token.username}`, { displayName: 'X', disabled: false })
  await service.admin.delete(`/users/${token.username}`)
  const { body: rule } = await service.admin.post('/trust-rules', {
    ...{ name: 'ci', issuer: 'http://127.0.0.1:9', claims: { sub: 'repo:acme/site:main' } },
    ...{ repositories: ['copy'], permissions: ['repo:read'] },
  })
  await service.admin.delete(`/trust-rules/${rule.id}`)
  const { body: key } = await owner.post('/keys', { name: 'laptop', publicKey: newKeyLine() })
  await service.admin.delete(`/keys/${key.id}`)
  const events = await service.db.selectFrom('events').selectAll().orderBy('seq').execute()
  assert.deepEqual(
    events.map(({ kind }) => kind),
    [
      ...['repository.created', 'repository.description'],
      ...['repository.run_tokens', 'repository.visibility'],
      ...['repository.leak_guard', 'repository.leak_guard'],
      'protection.added',
      ...['protection.changed', 'protection.removed', 'collaborator.added'],
      ...['collaborator.changed', 'collaborator.removed', 'secret.saved', 'secret.deleted'],
      ...['lfs_lock.created', 'lfs_lock.deleted'],
      ...['webhook.created', 'webhook.updated', 'webhook.disabled', 'webhook.updated'],
      ...['webhook.deleted', 'repository.renamed'],
      ...[
        'push',
        'push',
        'push',
        'push.leak_allowed',
        'repository.default_branch',
        'status.reported',
        ...['push', 'change.opened', 'push', 'change.version_added', 'change.updated'],
        ...['change.commented', 'change.comment_updated', 'change.verdict_given'],
        ...['protection.added', 'change.queued', 'queue.trial_started', 'change.unqueued'],
        ...['protection.removed', 'push', 'change.landed'],
        'workflow',
        'workflow',
        'workflow',
        'workflow',
        'workflow',
      ],
      ...['repository.deleted', 'repository.restored', 'repository.deleted', 'repository.purged'],
      ...['repository.imported', 'repository.transferred'],
      ...['namespace.created', 'namespace.member_added', 'namespace.member_added'],
      ...[
        'namespace.member_removed',
        'namespace.updated',
        'namespace.limited',
        'namespace.deleted',
      ],
      ...['token.created', 'token.deleted', 'user.updated', 'user.deleted'],
      ...['trust_rule.created', 'trust_rule.deleted'],
      ...['ssh_key.added', 'ssh_key.deleted'],
    ],
  )
  assert.ok(!/hush-hush|hooks-only/.test(JSON.stringify(events)))
  const updates = events.filter(({ kind }) => kind === 'webhook.updated')
  assert.deepEqual(
    updates.map(({ data }) => JSON.parse(data).changed),
    [['url', 'events', 'secret'], ['enabled']],
  )
  assert.deepEqual(new Set(events.map(({ kind }) => kind)), new Set(eventKinds))
  const first = events[0]?.seq ?? 0
  assert.deepEqual(
    events.map(({ seq }) => seq - first),
    events.map((_, index) => index),
  )
  const ofSite = events.slice(0, events.findIndex(({ kind }) => kind === 'repository.purged') + 1)
  for (const { kind, actorId, actorUsername } of ofSite) {
    const others: Record<string, string[]> = {
      'webhook.disabled': ['server', 'svc'],
      'change.verdict_given': [reviewer.id, 'eve'],
    }
    const who = others[kind] ?? [owner.id, 'ada']
    assert.deepEqual([actorId, actorUsername], who, kind)
  }
  assert.equal(new Set(ofSite.map(({ repositoryId }) => repositoryId)).size, 1)
})

/** Pushes a token, with the option that allows it. */
async function pushLeak(): Promise<void> {
  await project.git('checkout', '--quiet', '-b', 'leaky')
  await project.commit('deploy.sh', newTokenString())
  const push = ['push', '--quiet', owner.remote('page'), 'leaky']
  const { stderr } = await toEnded(git(project.path, push))
  const [, id = ''] = /leak\.allow=(\w+)/.exec(stderr) ?? []
  await project.git(...push, '-o', `leak.allow=${id}`)
  await project.git('checkout', '--quiet', 'main')
}

test('each changed ref of a push is an event, with its old and new value', async () => {
  await owner.post('/repos', { name: 'refs' })
  const tip = await project.git('rev-parse', 'HEAD')
  const zero = '0'.repeat(40)
  await project.git('push', '--quiet', owner.remote('refs'), 'main:main', 'main:refs/tags/v1')
  await project.git('push', '--quiet', owner.remote('refs'), ':refs/tags/v1')
  await assert.rejects(project.git('push', '--quiet', owner.remote('refs'), 'main:refs/heads/-x'))
  await until('the pushes are finished', isFinished)
  const events = await service.db
    .selectFrom('events')
    .select('data')
    .where('kind', '=', 'push')
    .orderBy('seq')
    .execute()
  const updates = events
    .map(({ data }) => JSON.parse(data))
    .filter(({ repositoryName }) => repositoryName === 'refs')
  assert.deepEqual(
    updates.map(({ ref, before, after }) => [ref, before, after]),
    [
      ['refs/heads/main', zero, tip],
      ['refs/tags/v1', zero, tip],
      ['refs/tags/v1', tip, zero],
    ],
  )
  assert.equal(updates[0].pushId, updates[1].pushId)
  const pushes = await service.db.selectFrom('pushes').select('finishedAt').execute()
  assert.ok(pushes.every(({ finishedAt }) => finishedAt !== null))
})

async function changeWebhooks(): Promise<void> {
  // No one listens on this port.
  const url = 'http://127.0.0.1:9/'
  const { body } = await owner.post('/repos/site/webhooks', { url, events: ['push', 'workflow'] })
  const at = `/repos/site/webhooks/${body.id}`
  await owner.patch(at, { url: `${url}x`, events: ['push'], secret: 'hooks-only' })
  await owner.patch(at, { url: `${url}x`, events: ['push'] })
  await service.db.updateTable('webhooks').set({ failingSince: 1 }).execute()
  await owner.post(`${at}/ping`)
  await until('it is disabled', async () => (await owner.get(at)).body.health === 'disabled')
  await owner.patch(at, { enabled: true })
  await owner.delete(at)
}

async function isFinished(): Promise<boolean> {
  const pushes = await service.db.selectFrom('pushes').select('finishedAt').execute()
  return pushes.length > 0 && pushes.every(({ finishedAt }) => finishedAt !== null)
}
