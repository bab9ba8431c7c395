// Tags: exhaustive
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv } from 'ajv'
import { type TSchema, Type } from 'typebox'
import { permissions } from '#access/permissions.ts'
import { newId } from '#base/ids.ts'
import type { FieldError, Problem } from '#base/problem.ts'
import {
  route as define,
  type JsonRoute,
  nothing,
  type Route,
  type StreamRoute,
} from '#http/route.ts'
import { checkBody, checkQuery } from '#http/validation.ts'
import { until } from '../support/condition.ts'
import { createProject } from '../support/git.ts'
import { type InProcess, startInProcess } from '../support/in-process.ts'
import { finishedPushes } from '../support/pushes.ts'
import { wholeRun } from '../support/run-by-hand.ts'
import { archiveOf, put } from '../support/run-files.ts'
import { type Answer, type Client, createClient, toAnswer } from '../support/service.ts'
import { newKeyLine } from '../support/ssh-keys.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

const project = await createProject()

/** How a route is called so that it succeeds: for repository `site`, owned by `owner`. */
type Example = {
  path: string
  body?: object
  /** Whether the length of the answer is not known when it begins. */
  isStream?: boolean
  /** A body of the content type that the route consumes. */
  content?: Buffer
  /** Whether the answer is another each time. */
  isLive?: boolean
  /** Makes what the call needs; returns values for `{…}` in the path; `token` is one to call with. */
  prepare?: (owner: Client, admin: Client) => Promise<Record<string, string>>
}

const trustRule = {
  ...{ name: 'ci', issuer: 'http://127.0.0.1:9', claims: { sub: 'repo:acme/site:main' } },
  ...{ repositories: ['site'], permissions: ['repo:read'] },
}

async function addTrustRule(owner: Client): Promise<Record<string, string>> {
  return { id: (await owner.post('/trust-rules', trustRule)).body.id }
}

const claimBody = { name: 'x', version: '1', labels: [], isolation: 'none', waitSeconds: 0 }

async function deleteSite(owner: Client): Promise<Record<string, string>> {
  const { body } = await owner.get('/repos/site')
  await owner.delete('/repos/site')
  return { id: body.id }
}

async function makeRun(owner: Client): Promise<Record<string, string>> {
  await pushFiles(owner, 'site', oneStep('true'))
  return { id: (await owner.post('/repos/site/workflows', {})).body.id }
}

async function makePush(owner: Client): Promise<Record<string, string>> {
  await project.git('push', '--quiet', owner.remote('site'), 'main')
  const [push] = await finishedPushes(service, owner, 'site')
  return { id: push?.id ?? '', commit: await project.git('rev-parse', 'main') }
}

async function makeChange(owner: Client): Promise<Record<string, string>> {
  await makeTopic(owner)
  const { body } = await owner.post('/repos/site/changes', { source: 'topic', target: 'main' })
  return { change: String(body.number) }
}

/** A change in the queue. */
async function makeQueued(owner: Client): Promise<Record<string, string>> {
  const made = await makeChange(owner)
  const rules = { queue: true, requires: [{ status: 'ci' }] }
  await owner.put('/repos/site/protections/branches/main', rules)
  await owner.post(`/repos/site/changes/${made.change}/land`, { method: 'merge' })
  return made
}

/** A change that another user has proposed. */
async function makeForeignChange(owner: Client): Promise<Record<string, string>> {
  await makeTopic(owner)
  const proposed = { source: 'topic', target: 'main' }
  const { body } = await service.admin.post('/repos/site/changes', proposed)
  return { change: String(body.number) }
}

async function makeComment(owner: Client): Promise<Record<string, string>> {
  const { change = '' } = await makeChange(owner)
  const { body } = await owner.post(`/repos/site/changes/${change}/comments`, { text: 'Why?' })
  return { change, comment: body.id }
}

async function makeTopic(owner: Client): Promise<Record<string, string>> {
  const tree = await project.git('rev-parse', 'main^{tree}')
  const next = await project.git('commit-tree', '-p', 'main', '-m', 'Next', tree)
  await project.git('push', '--quiet', owner.remote('site'), 'main', `${next}:refs/heads/topic`)
  return {}
}

async function claimRun(owner: Client): Promise<Record<string, string>> {
  const { id = '' } = await makeRun(owner)
  const { body } = await owner.post('/runner/claim', claimBody)
  assert.equal(body.plan.runId, id)
  return { id, token: body.claimToken }
}

async function makeNamespace(owner: Client, admin: Client): Promise<Record<string, string>> {
  await admin.post('/namespaces', { name: 'acme' })
  await admin.put(`/namespaces/acme/members/${owner.username}`, { role: 'admin' })
  return {}
}

/** Examples of what namespaces have as repositories do, with these words in the paths of their routes. */
function ofNamespaces(all: Record<string, Example>, words: RegExp): Record<string, Example> {
  const inNamespace = (path: string) => path.replace('/repos/site/', '/namespaces/acme/')
  const entries = Object.entries(all).filter(([route]) => words.test(route))
  return Object.fromEntries(
    entries.map(([route, { prepare, path, ...rest }]) => {
      const prepareBoth: Example['prepare'] = async (owner, admin) => {
        await makeNamespace(owner, admin)
        const call: Client['call'] = (method, at, body) => owner.call(method, inNamespace(at), body)
        const get: Client['get'] = (at) => call('GET', at)
        const post: Client['post'] = (at, body) => call('POST', at, body)
        const put: Client['put'] = (at, body) => call('PUT', at, body)
        return (await prepare?.({ ...owner, call, get, post, put }, admin)) ?? {}
      }
      const ofNamespace = { ...rest, path: inNamespace(path), prepare: prepareBoth }
      return [route.replace('/repos/:name/', '/namespaces/:namespace/'), ofNamespace]
    }),
  )
}

const archive = archiveOf('a', 'a')
const lfsObject = `/repos/site.git/info/lfs/objects/${'0'.repeat(64)}`

/** A run with an artifact and a cache. */
async function makeFiles(owner: Client): Promise<Record<string, string>> {
  const { id = '', token = '' } = await claimRun(owner)
  const run = { own: createClient(service.url, token), path: `/runner/runs/${id}` }
  for (const path of ['artifacts?name=a', 'caches?key=k&version=v'])
    assert.equal((await put(run, path, archive)).status, 201)
  return { id, token }
}

async function makeArtifact(owner: Client): Promise<Record<string, string>> {
  return { id: (await makeFiles(owner)).id ?? '' }
}

async function makeCache(owner: Client): Promise<Record<string, string>> {
  await makeFiles(owner)
  const [{ id }] = (await owner.get('/repos/site/caches')).body
  return { id }
}

const holder = 'the-secret-of-a-runner'

/** A failed run whose workspace is kept. */
async function failRun(owner: Client): Promise<Record<string, string>> {
  const { id = '', token = '' } = await claimRun(owner)
  const run = createClient(service.url, token)
  const workspace = { id: newId(), job: 'steps', keptSeconds: 60, holder }
  assert.equal((await run.post(`/runner/runs/${id}/workspaces`, workspace)).status, 204)
  const entries = wholeRun('failure')
  await run.post(`/runner/runs/${id}/report`, { first: 0, entries })
  return { id }
}

async function openShell(owner: Client): Promise<Record<string, string>> {
  const { id = '' } = await failRun(owner)
  const { body } = await owner.post(`/repos/site/workflows/${id}/shells`, {})
  return { id, shell: body.id }
}

async function claimRunWithIdTokens(owner: Client): Promise<Record<string, string>> {
  const text = 'permissions: { id-token: write }\nsteps: [{ run: x }]\n'
  await pushFiles(owner, 'site', { '.svc/workflows/ci.yml': text })
  await owner.post('/repos/site/workflows', {})
  const { body } = await owner.post('/runner/claim', claimBody)
  const { runId, identities } = body.plan
  return { id: runId, token: identities[0].idTokens.token }
}

async function delegate(owner: Client): Promise<Record<string, string>> {
  return { id: (await owner.post('/tokens/delegate', { name: 'part' })).body.id }
}

// No server listens at this address.
const webhookBody = { url: 'http://127.0.0.1:9/', events: ['push', 'workflow'], secret: 'hush' }

async function addWebhook(owner: Client): Promise<Record<string, string>> {
  return { id: (await owner.post('/repos/site/webhooks', webhookBody)).body.id }
}

async function failedDelivery(owner: Client): Promise<Record<string, string>> {
  const { id = '' } = await addWebhook(owner)
  const { body } = await owner.post(`/repos/site/webhooks/${id}/ping`)
  const path = `/repos/site/webhooks/${id}/deliveries/${body.id}`
  await until('the ping has failed', async () => (await owner.get(path)).body.status === 'failed')
  return { id, deliveryId: body.id }
}

// A check changes nothing, and the reports of runners are in their runs.
const unaudited = new Set([
  'checkAccess',
  'createLoginCode',
  'callMcp',
  'validateWorkflows',
  'claimRun',
  'reportRun',
  'releaseRun',
  'saveArtifact',
  'saveCache',
  'writeShellInput',
  'keepWorkspace',
  'claimShell',
  'readShellInput',
  'writeShellOutput',
  'endShell',
])

/** Asserts that the newest audit entry of a user's own requests, `since` another one, is of this user. What the server does by itself meanwhile has entries of its own. */
async function assertAudited(admin: Client, username: string, since: number): Promise<void> {
  const { body } = await admin.get('/audit?limit=100')
  const entries: Audited[] = body
  const own = entries.find(({ seq, via }) => seq > since && via !== 'server')
  assert.ok(own, 'nothing has been audited')
  const { actor, via, address } = own
  const expected = { username, via: 'api', address: '127.0.0.1' }
  assert.deepEqual({ username: actor.username, via, address }, expected)
}

const ownExamples: Record<string, Example> = {
  'GET /health': { path: '/health' },
  'GET /openapi.json': { path: '/openapi.json' },
  'GET /docs': { path: '/docs' },
  'GET /llms.txt': { path: '/llms.txt' },
  'GET /repos': { path: '/repos' },
  'GET /step-network': { path: '/step-network' },
  'GET /activity': { path: '/activity?filter=SITE' },
  'POST /repos': { path: '/repos', body: { name: 'fresh' } },
  'POST /repos/import': {
    path: '/repos/import',
    body: { source: project.path, name: 'fresh' },
  },
  'GET /repos/:name': { path: '/repos/site' },
  'PATCH /repos/:name': { path: '/repos/site', body: { name: 'Site', defaultBranch: 'main' } },
  'DELETE /repos/:name': { path: '/repos/site' },
  'GET /deleted-repos': { path: '/deleted-repos', prepare: deleteSite },
  'POST /deleted-repos/:id/restore': {
    path: '/deleted-repos/{id}/restore',
    body: { name: 'fresh' },
    prepare: deleteSite,
  },
  'DELETE /deleted-repos/:id': { path: '/deleted-repos/{id}', prepare: deleteSite },
  'GET /repos/:name/protections/branches': { path: '/repos/site/protections/branches' },
  'GET /repos/:name/protections/tags': { path: '/repos/site/protections/tags' },
  'PUT /repos/:name/protections/tags/:pattern*': {
    path: '/repos/site/protections/tags/v*',
    body: { owners: 'fast-forward', requires: ['ci.yml'] },
  },
  'DELETE /repos/:name/protections/tags/:pattern*': {
    path: '/repos/site/protections/tags/v*',
    prepare: async (owner) => {
      await owner.put('/repos/site/protections/tags/v*')
      return {}
    },
  },
  'PUT /repos/:name/protections/branches/:branch*': {
    path: '/repos/site/protections/branches/release/*',
  },
  'DELETE /repos/:name/protections/branches/:branch*': {
    path: '/repos/site/protections/branches/main',
    prepare: async (owner) => {
      await owner.put('/repos/site/protections/branches/main')
      return {}
    },
  },
  'GET /audit': { path: '/audit' },
  'POST /repos/:name/check': {
    path: '/repos/site/check',
    body: { action: 'push', refs: [{ ref: 'main' }], username: 'grace' },
  },
  'GET /repos/:name/collaborators': { path: '/repos/site/collaborators' },
  'POST /repos/:name/collaborators': {
    path: '/repos/site/collaborators',
    body: { username: 'grace' },
  },
  'DELETE /repos/:name/collaborators/:username': {
    path: '/repos/site/collaborators/grace',
    prepare: async (owner) => {
      await owner.post('/repos/site/collaborators', { username: 'grace' })
      return {}
    },
  },
  'GET /repos/:name/secrets': {
    path: '/repos/site/secrets',
    prepare: async (owner) => {
      await owner.put('/repos/site/secrets/TOKEN', { value: 'hush' })
      return {}
    },
  },
  'PUT /repos/:name/secrets/:secretName': {
    path: '/repos/site/secrets/TOKEN',
    body: { value: 'hush' },
  },
  'DELETE /repos/:name/secrets/:secretName': {
    path: '/repos/site/secrets/TOKEN',
    prepare: async (owner) => {
      await owner.put('/repos/site/secrets/TOKEN', { value: 'hush' })
      return {}
    },
  },
  'GET /namespaces': { path: '/namespaces' },
  'POST /namespaces': { path: '/namespaces', body: { name: 'fresh' } },
  'GET /namespaces/:namespace': { path: '/namespaces/acme', prepare: makeNamespace },
  'PATCH /namespaces/:namespace': {
    path: '/namespaces/acme',
    body: { name: 'fresh' },
    prepare: makeNamespace,
  },
  'DELETE /namespaces/:namespace': { path: '/namespaces/acme', prepare: makeNamespace },
  'GET /namespaces/:namespace/usage': {
    path: '/namespaces/acme/usage',
    prepare: makeNamespace,
  },
  'GET /namespaces/:namespace/members': {
    path: '/namespaces/acme/members',
    prepare: makeNamespace,
  },
  'PUT /namespaces/:namespace/members/:member': {
    path: '/namespaces/acme/members/grace',
    body: { role: 'read' },
    prepare: makeNamespace,
  },
  'DELETE /namespaces/:namespace/members/:member': {
    path: '/namespaces/acme/members/owner',
    prepare: makeNamespace,
  },
  'GET /user': { path: '/user' },
  'GET /users': { path: '/users' },
  'GET /users/:username': { path: '/users/owner' },
  'PATCH /users/:username': { path: '/users/admin', body: { displayName: 'Admin' } },
  'DELETE /users/:username': {
    path: '/users/former',
    prepare: async (_owner, admin) => {
      await admin.post('/tokens', { name: 'x', username: 'former' })
      return {}
    },
  },
  'GET /tokens': { path: '/tokens' },
  'POST /tokens': { path: '/tokens', body: { name: 'ci' } },
  'DELETE /tokens/:id': {
    path: '/tokens/{id}',
    prepare: async (_owner, admin) => ({
      id: (await admin.post('/tokens', { name: 'old' })).body.id,
    }),
  },
  'POST /tokens/delegate': {
    path: '/tokens/delegate',
    body: { name: 'part', permissions: [], expiresInSeconds: 60, refs: ['refs/heads/x/*'] },
  },
  'GET /tokens/delegated': {
    path: '/tokens/delegated',
    prepare: delegate,
  },
  'DELETE /tokens/delegated/:id': { path: '/tokens/delegated/{id}', prepare: delegate },
  'POST /login-codes': { path: '/login-codes' },
  'POST /tokens/exchange': { path: '/tokens/exchange' },
  'GET /trust-rules': { path: '/trust-rules?repository=site' },
  'POST /trust-rules': { path: '/trust-rules', body: trustRule },
  'GET /trust-rules/:id': { path: '/trust-rules/{id}', prepare: addTrustRule },
  'DELETE /trust-rules/:id': { path: '/trust-rules/{id}', prepare: addTrustRule },
  'GET /keys': {
    path: '/keys',
    prepare: async (owner) => {
      await owner.post('/keys', { name: 'laptop', publicKey: newKeyLine() })
      return {}
    },
  },
  'POST /keys': { path: '/keys', body: { name: 'laptop', publicKey: newKeyLine() } },
  'DELETE /keys/:id': {
    path: '/keys/{id}',
    prepare: async (owner) => ({
      id: (await owner.post('/keys', { name: 'old', publicKey: newKeyLine() })).body.id,
    }),
  },
  'GET /repos/:name/commits': { path: '/repos/site/commits?rev=main&limit=1', prepare: makePush },
  'GET /changes': { path: '/changes?limit=1', prepare: makeChange },
  'GET /repos/:name/changes': {
    path: '/repos/site/changes?state=open&limit=1',
    prepare: makeChange,
  },
  'POST /repos/:name/changes': {
    path: '/repos/site/changes',
    body: { source: 'topic', target: 'main', title: 'Another', description: 'A *gate*.' },
    prepare: makeTopic,
  },
  'POST /repos/:name/proposals': {
    path: '/repos/site/proposals',
    body: { branch: 'main', message: 'Propose it', changes: [{ path: 'b.txt', content: 'b' }] },
    prepare: makePush,
  },
  'GET /repos/:name/changes/:number': {
    path: '/repos/site/changes/{change}',
    prepare: makeChange,
  },
  'GET /repos/:name/changes/:number/diff': {
    path: '/repos/site/changes/{change}/diff?from=1&to=1',
    prepare: makeChange,
  },
  'PATCH /repos/:name/changes/:number': {
    path: '/repos/site/changes/{change}',
    body: { title: 'Another title', state: 'abandoned' },
    prepare: makeChange,
  },
  'POST /repos/:name/changes/:number/land': {
    path: '/repos/site/changes/{change}/land',
    body: { method: 'merge' },
    prepare: makeChange,
  },
  'DELETE /repos/:name/changes/:number/land': {
    path: '/repos/site/changes/{change}/land',
    prepare: makeQueued,
  },
  'GET /repos/:name/queue': { path: '/repos/site/queue', prepare: makeQueued },
  'GET /repos/:name/statuses': {
    path: '/repos/site/statuses?commits={commit}',
    prepare: makePush,
  },
  'GET /repos/:name/changes/:number/comments': {
    path: '/repos/site/changes/{change}/comments?limit=1',
    prepare: makeComment,
  },
  'POST /repos/:name/changes/:number/comments': {
    path: '/repos/site/changes/{change}/comments',
    body: { text: 'Here, too.', path: 'readme.txt', line: 1, version: 1 },
    prepare: makeComment,
  },
  'PATCH /repos/:name/changes/:number/comments/:id': {
    path: '/repos/site/changes/{change}/comments/{comment}',
    body: { text: 'Not here.', resolved: true },
    prepare: makeComment,
  },
  'PUT /repos/:name/changes/:number/verdict': {
    path: '/repos/site/changes/{change}/verdict',
    body: { verdict: 'approve', version: 1 },
    prepare: makeForeignChange,
  },
  'GET /repos/:name/commits/:commit/statuses': {
    path: '/repos/site/commits/{commit}/statuses',
    prepare: makePush,
  },
  'POST /repos/:name/commits/:commit/statuses': {
    path: '/repos/site/commits/{commit}/statuses',
    body: { context: 'ci', state: 'success' },
    prepare: makePush,
  },
  'GET /repos/:name/commits/:id': {
    path: '/repos/site/commits/{commit}?diff=1',
    prepare: makePush,
  },
  'GET /repos/:name/compare': {
    path: '/repos/site/compare?base={commit}&head=main',
    prepare: makePush,
  },
  'GET /repos/:name/archive': {
    path: '/repos/site/archive?rev=main',
    isStream: true,
    prepare: makePush,
  },
  'GET /repos/:name/blame': {
    path: '/repos/site/blame?rev=main&path=readme.txt',
    prepare: makePush,
  },
  'GET /repos/:name/search': { path: '/repos/site/search?rev=main&q=readme', prepare: makePush },
  'GET /repos/:name/branches': { path: '/repos/site/branches?base=main', prepare: makePush },
  'GET /repos/:name/tags': { path: '/repos/site/tags?limit=10', prepare: makePush },
  'GET /repos/:name/file': { path: '/repos/site/file?path=readme.txt', prepare: makePush },
  'GET /repos/:name/tree': { path: '/repos/site/tree?rev=main', prepare: makePush },
  'GET /repos/:name/pushes': { path: '/repos/site/pushes', prepare: makePush },
  'GET /repos/:name/pushes/:id': { path: '/repos/site/pushes/{id}', prepare: makePush },
  'POST /repos/:name/pushes/:id/undo': {
    path: '/repos/site/pushes/{id}/undo',
    prepare: makePush,
  },
  'POST /repos/:name/commits': {
    path: '/repos/site/commits',
    body: { branch: 'topic', message: 'Add a file', changes: [{ path: 'a', content: 'a' }] },
  },
  'POST /repos/:name/merges': {
    path: '/repos/site/merges',
    body: { base: 'main', head: 'topic', method: 'merge' },
    prepare: makeTopic,
  },
  'PUT /repos/:name/refs': {
    path: '/repos/site/refs?ref=refs/tags/v1',
    body: { target: 'main' },
    prepare: makeTopic,
  },
  'DELETE /repos/:name/refs': {
    path: '/repos/site/refs?ref=refs/heads/topic',
    prepare: makeTopic,
  },
  'GET /repos/:name/workflows': { path: '/repos/site/workflows', prepare: makeRun },
  'POST /repos/:name/workflows': {
    path: '/repos/site/workflows',
    body: { branch: 'main', files: ['ci.yml'] },
    prepare: makeRun,
  },
  'POST /repos/:name/workflows/validate': {
    path: '/repos/site/workflows/validate',
    body: { contents: [{ path: 'ci.yml', text: 'steps: []' }] },
  },
  'GET /repos/:name/annotations': {
    path: `/repos/site/annotations?commit=${'c'.repeat(40)}`,
    prepare: makeRun,
  },
  'GET /repos/:name/workflows/:id': { path: '/repos/site/workflows/{id}', prepare: makeRun },
  'GET /repos/:name/workflows/:id/logs': {
    path: '/repos/site/workflows/{id}/logs',
    isStream: true,
    prepare: makeRun,
  },
  'POST /repos/:name/workflows/:id/cancel': {
    path: '/repos/site/workflows/{id}/cancel',
    prepare: makeRun,
  },
  'POST /repos/:name/workflows/:id/approve': {
    path: '/repos/site/workflows/{id}/approve',
    prepare: async (owner) => {
      const run = await makeRun(owner)
      await service.db.updateTable('runs').set({ needsApproval: 1, isRestricted: 1 }).execute()
      return run
    },
  },
  'POST /repos/:name/workflows/:id/rerun': {
    path: '/repos/site/workflows/{id}/rerun',
    body: { jobs: 'failed' },
    prepare: async (owner) => {
      const { id = '' } = await makeRun(owner)
      await owner.post(`/repos/site/workflows/${id}/cancel`)
      return { id }
    },
  },
  'POST /repos/:name/workflows/:id/shells': {
    path: '/repos/site/workflows/{id}/shells',
    body: { job: 'steps', terminal: { columns: 80, rows: 24, term: 'xterm' } },
    prepare: failRun,
  },
  'GET /repos/:name/workflows/:id/shells/:shell/output': {
    path: '/repos/site/workflows/{id}/shells/{shell}/output?after=0&wait=0',
    prepare: openShell,
  },
  'POST /repos/:name/workflows/:id/shells/:shell/input': {
    path: '/repos/site/workflows/{id}/shells/{shell}/input',
    body: { start: 0, data: 'bHMK', end: true },
    prepare: openShell,
  },
  'DELETE /repos/:name/workflows/:id/shells/:shell': {
    path: '/repos/site/workflows/{id}/shells/{shell}',
    prepare: openShell,
  },
  'GET /repos/:name/workflows/:id/artifacts': {
    path: '/repos/site/workflows/{id}/artifacts',
    prepare: makeArtifact,
  },
  'GET /repos/:name/workflows/:id/artifacts/:artifact': {
    path: '/repos/site/workflows/{id}/artifacts/a?format=tar.gz',
    isStream: true,
    prepare: makeArtifact,
  },
  'DELETE /repos/:name/workflows/:id/artifacts/:artifact': {
    path: '/repos/site/workflows/{id}/artifacts/a',
    prepare: makeArtifact,
  },
  'GET /repos/:name/run-files': { path: '/repos/site/run-files', prepare: makeArtifact },
  'GET /repos/:name/caches': { path: '/repos/site/caches', prepare: makeCache },
  'DELETE /repos/:name/caches': { path: '/repos/site/caches?key=k', prepare: makeCache },
  'DELETE /repos/:name/caches/:id': { path: '/repos/site/caches/{id}', prepare: makeCache },
  'GET /repos/:name/webhooks': { path: '/repos/site/webhooks', prepare: addWebhook },
  'POST /repos/:name/webhooks': { path: '/repos/site/webhooks', body: webhookBody },
  'GET /repos/:name/webhooks/:id': { path: '/repos/site/webhooks/{id}', prepare: addWebhook },
  'PATCH /repos/:name/webhooks/:id': {
    path: '/repos/site/webhooks/{id}',
    body: { events: ['push'], secret: 'other', enabled: false },
    prepare: addWebhook,
  },
  'DELETE /repos/:name/webhooks/:id': { path: '/repos/site/webhooks/{id}', prepare: addWebhook },
  'POST /repos/:name/webhooks/:id/ping': {
    path: '/repos/site/webhooks/{id}/ping',
    prepare: addWebhook,
  },
  'POST /repos/:name/webhooks/:id/replay': {
    path: '/repos/site/webhooks/{id}/replay',
    body: { since: 0 },
    prepare: addWebhook,
  },
  'GET /repos/:name/webhooks/:id/deliveries': {
    path: '/repos/site/webhooks/{id}/deliveries?status=failed',
    prepare: failedDelivery,
  },
  'GET /repos/:name/webhooks/:id/deliveries/:deliveryId': {
    path: '/repos/site/webhooks/{id}/deliveries/{deliveryId}',
    prepare: failedDelivery,
  },
  'POST /repos/:name/webhooks/:id/deliveries/:deliveryId/retry': {
    path: '/repos/site/webhooks/{id}/deliveries/{deliveryId}/retry',
    prepare: failedDelivery,
  },
  'GET /events': { path: '/events?repository=site&kind=push,repository.created' },
  'POST /runner/claim': { path: '/runner/claim', body: claimBody, prepare: makeRun },
  'GET /runner/runs/:id/source': {
    path: '/runner/runs/{id}/source',
    isStream: true,
    prepare: claimRun,
  },
  'POST /runner/runs/:id/report': {
    path: '/runner/runs/{id}/report',
    body: { first: 0, entries: [{ kind: 'output', step: null, text: 'hello\n' }] },
    prepare: claimRun,
  },
  'GET /runner/runs/:id/orders': { path: '/runner/runs/{id}/orders?wait=0', prepare: claimRun },
  'POST /runner/runs/:id/release': {
    path: '/runner/runs/{id}/release',
    body: { reason: 'It stops.', isLoss: false },
    prepare: claimRun,
  },
  'POST /runner/runs/:id/workspaces': {
    path: '/runner/runs/{id}/workspaces',
    body: { id: newId(), job: 'steps', keptSeconds: 60, holder },
    prepare: claimRun,
  },
  'POST /runner/shells/claim': {
    path: '/runner/shells/claim',
    body: { holder, workspaces: [], removed: [], waitSeconds: 0 },
    prepare: openShell,
  },
  'POST /runner/shells/:id/input': {
    path: '/runner/shells/{shell}/input',
    body: { holder, after: 0, wantsInput: true, waitSeconds: 0 },
    prepare: openShell,
  },
  'POST /runner/shells/:id/output': {
    path: '/runner/shells/{shell}/output',
    body: { holder, start: 0, data: 'bHMK' },
    prepare: openShell,
  },
  'POST /runner/shells/:id/end': {
    path: '/runner/shells/{shell}/end',
    body: { holder, exitCode: 0, reason: '' },
    prepare: openShell,
  },
  'PUT /runner/runs/:id/artifacts': {
    path: '/runner/runs/{id}/artifacts?name=b',
    content: archive,
    prepare: claimRun,
  },
  'GET /runner/runs/:id/artifacts': { path: '/runner/runs/{id}/artifacts', prepare: makeFiles },
  'GET /runner/runs/:id/artifacts/content': {
    path: '/runner/runs/{id}/artifacts/content?name=a',
    isStream: true,
    prepare: makeFiles,
  },
  'PUT /runner/runs/:id/caches': {
    path: '/runner/runs/{id}/caches?key=k&version=v',
    content: archive,
    prepare: claimRun,
  },
  'GET /runner/runs/:id/caches': {
    path: '/runner/runs/{id}/caches?keys=k&version=v',
    isStream: true,
    prepare: makeFiles,
  },
  'GET /runner/runs/:id/id-token': {
    path: '/runner/runs/{id}/id-token?audience=x',
    isLive: true,
    prepare: claimRunWithIdTokens,
  },
  'GET /.well-known/openid-configuration': { path: '/.well-known/openid-configuration' },
  'GET /.well-known/jwks': { path: '/.well-known/jwks' },
  'POST /mcp': { path: '/mcp', body: { jsonrpc: '2.0', id: 1, method: 'tools/list' } },
  'GET /metrics': { path: '/metrics', isLive: true },
  'GET /repos/:repository/info/refs': { path: '/repos/site.git/info/refs?service=git-upload-pack' },
  'POST /repos/:repository/git-upload-pack': { path: '/repos/site.git/git-upload-pack' },
  'POST /repos/:repository/git-upload-archive': { path: '/repos/site.git/git-upload-archive' },
  'POST /repos/:repository/git-receive-pack': { path: '/repos/site.git/git-receive-pack' },
  'GET /repos/:repository/info/lfs/:path*': { path: '/repos/site.git/info/lfs/other?limit=1' },
  'POST /repos/:repository/info/lfs/:path*': { path: '/repos/site.git/info/lfs/other' },
  'POST /repos/:repository/info/lfs/locks': {
    path: '/repos/site.git/info/lfs/locks',
    body: { path: 'a.bin' },
  },
  'GET /repos/:repository/info/lfs/locks': { path: '/repos/site.git/info/lfs/locks?limit=1' },
  'POST /repos/:repository/info/lfs/locks/verify': {
    path: '/repos/site.git/info/lfs/locks/verify',
    body: {},
  },
  'POST /repos/:repository/info/lfs/locks/:id/unlock': {
    path: '/repos/site.git/info/lfs/locks/0/unlock',
    body: {},
  },
  'POST /repos/:repository/info/lfs/objects/batch': {
    path: '/repos/site.git/info/lfs/objects/batch',
    body: { operation: 'download', objects: [] },
  },
  'POST /repos/:repository/info/lfs/objects/verify': {
    path: '/repos/site.git/info/lfs/objects/verify',
  },
  'PUT /repos/:repository/info/lfs/objects/:oid': { path: lfsObject },
  'GET /repos/:repository/info/lfs/objects/:oid': { path: lfsObject },
}

// The routes are those of the running service; they are listed before the tests of each are declared.
const examples = {
  ...ownExamples,
  ...ofNamespaces(ownExamples, / \/repos\/:name\/(secrets|webhooks|protections)/),
}

const service = await startInProcess({
  SVC_IMPORT_LOCAL_ROOTS: project.path,
  SVC_NAMESPACE_CREATORS: 'owner',
})
const { routes } = service
const everything = permissions.filter((permission) => permission !== 'admin')

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

test('every route has an example here, and every example a route', () => {
  assert.deepEqual(Object.keys(examples).sort(), routes.map(nameOf).sort())
})

for (const route of routes) {
  describe(nameOf(route), () => {
    const example = examples[nameOf(route)] ?? { path: '' }
    let clients: Clients
    let path: string
    let runClient: Client | undefined

    before(async () => {
      clients = await makeClients(service)
      await clients.owner.post('/repos', { name: 'site' })
      await clients.owner.post('/repos/site/collaborators', { username: 'collaborator' })
      const values = (await example.prepare?.(clients.owner, clients.admin)) ?? {}
      runClient = values.token === undefined ? undefined : createClient(service.url, values.token)
      path = example.path.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? '')
    })

    after(async () => {
      for (const name of ['site', 'Site', 'fresh']) await clients.admin.delete(`/repos/${name}`)
      for (const name of ['acme', 'fresh']) await clients.admin.delete(`/namespaces/${name}`)
    })

    if (route.kind === 'public') {
      test('responds without a token', async () => {
        const { method, form } = route
        // Every form has a field that is required.
        const sent = form && { method, body: new URLSearchParams() }
        const answer = await toAnswer(await fetch(service.url + path, sent))
        assert.equal(answer.status, form ? 400 : 200)
        if (form) return
        if (route.reply) assertMatches(route.reply, answer.body)
      })
    } else {
      guardedTests(route)
    }
    test('rejects an unknown parameter', async () => {
      const address = `${path}${path.includes('?') ? '&' : '?'}no%2Fsuch=1&no%2Fsuch=2`
      const caller = runClient ?? clients.admin
      // Git's routes look at the type of a body before they look at what it is.
      const answer = await caller.call(route.method, address, example.body)
      assert.equal(answer.status, 400, answer.text)
      assert.match(answer.text, /query parameter `no\/such` is unknown; this request takes \w+/)
      if (route.kind !== 'stream')
        assert.deepEqual([answer.body.code, answer.body.errors.length], ['invalid_request', 1])
    })

    if (route.kind === 'json') jsonTests(route)

    function guardedTests(guarded: JsonRoute | StreamRoute) {
      test('rejects requests without a token, and invalid tokens', async () => {
        for (const headers of [{}, { authorization: 'Bearer svc_nope' }, { authorization: 'x' }]) {
          const answer = await toAnswer(
            await fetch(service.url + path, { method: guarded.method, headers }),
          )
          assert.equal(answer.status, 401)
          assert.match(answer.headers.get('www-authenticate') ?? '', /^(Bearer|Basic) realm=/)
        }
      })

      test('rejects a token without the permission, whether or not the repository exists', async () => {
        const permission = permissionOf(guarded, path)
        if (permission === undefined) return
        const others = everything.filter((other) => other !== permission)
        const client = await service.client({ username: 'owner', permissions: others })
        for (const address of [path, path.replace('site', 'never-used')]) {
          const answer = await client.call(guarded.method, address)
          assert.equal(answer.status, 403)
          assert.match(answer.text, new RegExp(permission))
        }
      })

      if (!guarded.path.startsWith('/repos/:')) return

      test('responds to users without access as if the repository did not exist', async () => {
        const there = await clients.stranger.call(guarded.method, path, example.body)
        const absent = await clients.stranger.call(
          guarded.method,
          path.replace('site', 'gone'),
          example.body,
        )
        assert.equal(there.status, 404)
        assert.equal(there.text.replaceAll('site', 'gone'), absent.text)
      })
    }

    function jsonTests(json: JsonRoute) {
      if (json.problems?.includes('owner_required')) {
        test('rejects a collaborator', async () => {
          const answer = await clients.collaborator.call(json.method, path, example.body)
          assert.deepEqual([answer.status, answer.body.code], [403, 'owner_required'])
        })
      }

      if (json.method !== 'GET') {
        test('rejects an unknown field and another content type', async () => {
          const body = { ...example.body, 'no/such': 1 }
          const sender = runClient ?? clients.admin
          if (json.consumes === undefined) {
            const unknown = await sender.call(json.method, path, body)
            assert.deepEqual([unknown.status, unknown.body.code], [400, 'invalid_request'])
            assert.equal(unknown.body.errors[0].pointer, '/no~1such')
          }
          for (const type of ['text/plain', 'application/x-www-form-urlencoded', '']) {
            const answer = await send(json.method, path, sender.token, type)
            assert.deepEqual([answer.status, answer.body.code], [415, 'unsupported_media_type'])
          }
        })
      }

      test('requires what its document says, and nothing else', async () => {
        const { paths } = (await toAnswer(await fetch(`${service.url}/openapi.json`))).body
        const template = json.path.replace(/:(\w+)\*?/g, '{$1}')
        const { parameters, requestBody } = paths[template][json.method.toLowerCase()]
        const caller = runClient ?? clients.admin
        const [address = '', query] = path.split('?')
        for (const { name, in: place, required, schema } of parameters) {
          if (place !== 'query' || (json.method !== 'GET' && !required)) continue
          const others = new URLSearchParams(query)
          others.delete(name)
          const { body } = await caller.call(json.method, `${address}?${others}`, example.body)
          const errors: (FieldError & { parameter?: string })[] = body?.errors ?? []
          const isMissed = errors.some(
            ({ parameter, detail }) => parameter === name && /^is required/.test(detail),
          )
          const isExpected = required || /required without/.test(schema.description)
          assert.equal(isMissed, isExpected, `${name}: ${body?.detail}`)
        }
        if (json.body === undefined) return
        if (!requestBody.required) assert.deepEqual(checkBody(json.body, {}), {})
        else assert.match((await caller.call(json.method, path)).text, /A JSON body is required/)
      })

      test('lists its methods for unsupported ones', async () => {
        const allow = (await clients.admin.call('OPTIONS', path)).headers.get('allow') ?? ''
        assert.ok(allow.split(', ').includes(json.method))
        for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'PROPFIND']) {
          if (allow.split(', ').includes(method)) continue
          const refused = await clients.admin.call(method, path)
          assert.deepEqual([refused.status, refused.body.code], [405, 'method_not_allowed'])
          assert.equal(refused.headers.get('allow'), allow)
        }
      })

      test('succeeds as documented', async () => {
        const usual = json.permission === 'admin' ? clients.admin : clients.owner
        const caller = runClient ?? usual
        const { content } = example
        const [newest] = (await clients.admin.get('/audit?limit=1')).body
        const answer = content
          ? await put({ own: caller, path: '' }, path.slice(1), content)
          : await caller.call(json.method, path, example.body)
        assert.equal(answer.status, json.status, answer.text)
        assert.equal(answer.headers.get('content-type'), json.reply ? json.produces : null)
        if (json.reply) assertMatches(json.reply, answer.body ?? answer.text)
        else assert.equal(answer.text, '')
        if (json.method !== 'GET' && !unaudited.has(json.operationId))
          await assertAudited(
            clients.admin,
            caller === clients.admin ? 'admin' : 'owner',
            newest.seq,
          )
        if (json.method === 'GET') {
          const head = await caller.call('HEAD', path)
          assert.deepEqual([head.status, head.text], [200, ''])
          const length = head.headers.get('content-length')
          if (example.isStream) return
          if (example.isLive) assert.ok(Number(length) > 0)
          else assert.equal(length, String(Buffer.byteLength(answer.text)))
        }
      })
    }
  })
}

test('the OpenAPI document is valid and describes every route', async () => {
  const document = (await toAnswer(await fetch(`${service.url}/openapi.json`))).body
  const result = await new Validator().validate(document)
  assert.deepEqual(result.errors ?? [], [])
  assert.equal(document.openapi.slice(0, 3), '3.1')
  const described = Object.entries<object>(document.paths).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
  )
  const expected = routes.map(
    ({ method, path }) => `${method} ${path.replace(/:(\w+)\*?/g, '{$1}')}`,
  )
  assert.deepEqual(described.sort(), expected.sort())
})

test('headers that are too large are a documented problem of every route', async () => {
  const { headers, status } = await toAnswer(
    await fetch(`${service.url}/repos`, { headers: { 'x-long': 'x'.repeat(20_000) } }),
  )
  assert.deepEqual([status, headers.get('content-type')], [431, 'application/problem+json'])
  const { paths } = (await toAnswer(await fetch(`${service.url}/openapi.json`))).body
  for (const item of Object.values<object>(paths)) {
    for (const { operationId, responses } of Object.values(item)) {
      assert.ok(responses[431], operationId)
      assert.ok(responses.default.content, operationId)
    }
  }
})

test('the longest documented names and paths are accepted, and longer ones are not', async () => {
  await service.admin.post('/repos', { name: 'long' })
  const { paths, components } = (await toAnswer(await fetch(`${service.url}/openapi.json`))).body
  const bodyOf = (path: string, method: string) => {
    const { schema } = paths[path][method].requestBody.content['application/json']
    return (schema.$ref ? components.schemas[schema.$ref.split('/').at(-1)] : schema).properties
  }
  const { maxLength: branch } = bodyOf('/repos/{name}', 'patch').defaultBranch
  const set = (defaultBranch: string) => service.admin.patch('/repos/long', { defaultBranch })
  assert.equal((await set('x'.repeat(branch))).status, 200)
  assert.equal((await set('x'.repeat(branch + 1))).status, 400)

  const { branch: name, changes } = bodyOf('/repos/{name}/commits', 'post')
  const { maxLength: bytes, description } = changes.items.properties.path
  assert.match(description, new RegExp(`at most ${bytes} bytes in UTF-8$`))
  const commit = async (change: object, to = 'main') => {
    const start = to === 'main' ? {} : { start: 'main' }
    const body = { branch: to, ...start, message: 'x', changes: [{ content: 'x', ...change }] }
    return (await service.admin.post('/repos/long/commits', body)).status
  }
  // No part of a name has more than 250 bytes.
  const longName = (length: number) =>
    'x/'
      .repeat(length)
      .slice(0, length - 1)
      .concat('x')
  const even = (length: number) =>
    length % 2 === 0 ? `xx/${longName(length - 3)}` : longName(length)
  assert.equal(await commit({ path: 'x'.repeat(bytes) }), 201)
  for (const path of ['x'.repeat(bytes + 1), 'ä'.repeat(bytes / 2 + 1)])
    assert.equal(await commit({ path }), 400)
  assert.equal(await commit({ path: 'ä'.repeat(bytes / 2) }, even(name.maxLength)), 201)
  assert.equal(await commit({ path: 'x' }, even(name.maxLength + 1)), 400)

  const files = paths['/repos/{name}/file'].get.parameters
  const asked = files.find((one: { name: string }) => one.name === 'path').schema.maxLength
  const read = async (path: string) => {
    const query = new URLSearchParams({ rev: even(name.maxLength), path })
    return (await service.admin.get(`/repos/long/file?${query}`)).status
  }
  assert.deepEqual([await read('ä'.repeat(asked / 2)), await read('x'.repeat(asked))], [200, 200])
  for (const path of ['x'.repeat(asked + 1), 'ä'.repeat(asked / 2 + 1)])
    assert.equal(await read(path), 400)
  await service.admin.delete('/repos/long')
})

test('every resource has a named schema, and every reference resolves', async () => {
  const document = (await toAnswer(await fetch(`${service.url}/openapi.json`))).body
  const { schemas } = document.components
  for (const name of [
    'Repository',
    'DeletedRepository',
    'Run',
    'Event',
    'Push',
    'Webhook',
    'Delivery',
    'Token',
    'SshKey',
  ])
    assert.ok(schemas[name]?.properties, name)
  const references = [
    ...JSON.stringify(document).matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g),
  ]
  const used = new Set(references.map(([, name = '']) => name))
  assert.deepEqual([...used].sort(), Object.keys(schemas).sort())
  for (const [path, operations] of Object.entries<Record<string, Operation>>(document.paths)) {
    for (const [method, { responses }] of Object.entries(operations)) {
      for (const [status, { content = {} }] of Object.entries(responses)) {
        const schema = content['application/json']?.schema
        if (!schema || path === '/openapi.json') continue
        const { $ref } = (schema.items ?? schema) as { $ref?: string }
        assert.ok($ref, `${method} ${path} ${status} has a schema without a name`)
      }
    }
  }
})

test('operations have names, tags and valid links', async () => {
  const document = (await toAnswer(await fetch(`${service.url}/openapi.json`))).body
  const tags: string[] = document.tags.map(({ name }: { name: string }) => name)
  const all = Object.entries<Record<string, Operation>>(document.paths).flatMap(([path, item]) =>
    Object.values(item).map((operation) => ({ path, ...operation })),
  )
  const byId = new Map(all.map((operation) => [operation.operationId, operation]))
  assert.equal(byId.size, all.length)
  let links = 0
  for (const { operationId, tags: own, responses, path } of all) {
    assert.match(operationId, /^[a-z]+([A-Z][a-z]*)*$/)
    assert.ok(own.length === 1 && own.every((tag) => tags.includes(tag)), operationId)
    for (const response of Object.values(responses)) {
      for (const link of Object.values(response.links ?? {})) {
        const target = byId.get(link.operationId)
        assert.ok(target, `${operationId} links to ${link.operationId}`)
        assert.deepEqual(Object.keys(link.parameters), paramsOf(target.path), operationId)
        const { $ref = '' } = response.content?.['application/json']?.schema ?? {}
        const { properties } = document.components.schemas[$ref.split('/').at(-1) ?? ''] ?? {}
        for (const value of Object.values(link.parameters)) {
          const [, from, name = ''] =
            /^\$(request\.path\.|response\.body#\/)(\w+)$/.exec(value) ?? []
          const names = from === 'request.path.' ? paramsOf(path) : Object.keys(properties)
          assert.ok(names.includes(name), `${operationId}: ${value}`)
        }
        links++
      }
    }
  }
  assert.ok(links > 20, String(links))
  const created = document.paths['/repos'].post.responses[201].links
  assert.deepEqual(created.getRepository, {
    operationId: 'getRepository',
    parameters: { name: '$response.body#/name' },
  })
})

const paramsOf = (path: string) => [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)

type Audited = { seq: number; via: string; address: string; actor: { username: string } }

type Operation = {
  operationId: string
  tags: string[]
  responses: Record<
    string,
    {
      content?: Record<string, { schema: { $ref?: string; items?: { $ref?: string } } }>
      links?: Record<string, { operationId: string; parameters: Record<string, string> }>
    }
  >
}

test('every route with an event stream documents it', async () => {
  const { paths } = (await toAnswer(await fetch(`${service.url}/openapi.json`))).body
  for (const route of routes) {
    const { follow } = route.kind === 'json' ? propertiesOf(route.query) : {}
    const { responses } =
      paths[route.path.replace(/:(\w+)\*?/g, '{$1}')][route.method.toLowerCase()]
    const schema = responses[200]?.content?.['text/event-stream']?.schema
    assert.equal(schema?.description !== undefined, follow !== undefined, nameOf(route))
  }
})

test('an integer in a query is decimal, and a parameter is given once', async () => {
  for (const text of ['1e2', '+1', '0x10', ' 1', '1.0', '', 'NaN']) {
    const { status, body } = await service.admin.get(`/repos?limit=${encodeURIComponent(text)}`)
    assert.equal(status, 400, text)
    assert.match(body.detail, /^The query parameter `limit` must be an integer from 1 to 1000\.$/)
  }
  assert.equal((await service.admin.get('/repos?limit=12')).status, 200)
  await service.admin.post('/repos', { name: 'twice' })
  for (const path of [
    '/repos?limit=1&limit=1',
    '/repos/twice.git/info/refs?service=git-upload-pack&service=git-upload-pack',
  ]) {
    assert.equal((await service.admin.get(path)).status, 400, path)
  }
  await service.admin.delete('/repos/twice')
})

test('a response without content is documented without content', async () => {
  const { paths } = (await toAnswer(await fetch(`${service.url}/openapi.json`))).body
  const notification = { jsonrpc: '2.0', method: 'notifications/initialized' }
  const { status, text } = await service.admin.post('/mcp', notification)
  assert.deepEqual([status, text], [202, ''])
  assert.equal(paths['/mcp'].post.responses[202].content, undefined)
  assert.ok(paths['/repos/import'].post.responses[202].content)
  for (const item of Object.values<object>(paths))
    for (const { operationId, responses } of Object.values(item))
      assert.equal(responses[204]?.content, undefined, operationId)
  assert.ok(paths['/runner/claim'].post.responses[204])
})

test('a value that violates several rules is reported once', () => {
  const values = [
    null,
    true,
    -1,
    1e300,
    1.5,
    '',
    ' ',
    'x'.repeat(100_000),
    [],
    [null, ''],
    {},
    { a: [] },
  ]
  let count = 0
  for (const route of routes) {
    if (route.kind !== 'json') continue
    for (const place of ['body', 'query'] as const) {
      for (const name of Object.keys(propertiesOf(route[place]))) {
        for (const value of values) {
          const errors = errorsOf(() =>
            place === 'body'
              ? checkBody(route.body, { [name]: value })
              : checkQuery(route.query, new URLSearchParams([[name, String(value)]])),
          )
          const places = errors.map(placeOf)
          assert.deepEqual(places, [...new Set(places)], `${nameOf(route)}: ${name}`)
          const details = errors.filter((error) => placeOf(error).startsWith(`/${name}`))
          count += details.length
          for (const { detail } of details) assert.match(detail, /\.$/)
        }
      }
    }
  }
  assert.ok(count > 100, String(count))
  const union = define('POST', '/x', {
    operationId: 'x',
    tag: 'x',
    summary: 'x',
    permission: 'any',
    body: Type.Object({ a: Type.Union([Type.String(), Type.Null()]) }),
    reply: { 204: nothing },
    handle: async () => undefined,
  })
  assert.deepEqual(
    errorsOf(() => checkBody(union.body, { a: 1 })),
    [{ pointer: '/a', detail: 'must be a string or null.' }],
  )
})

test('every field of a request says what it accepts', () => {
  for (const route of routes) {
    if (route.kind !== 'json' || !route.body) continue
    const { properties } = route.body as { properties?: Record<string, { description?: string }> }
    for (const [name, field] of Object.entries(properties ?? {})) {
      assert.ok(field.description, `${nameOf(route)}: ${name}`)
    }
  }
})

test('errors for a body that is not an object, and for an unknown enum value, say what is accepted', () => {
  let words = 0
  for (const route of routes) {
    if (route.kind !== 'json') continue
    if (route.body) {
      for (const body of [[], 'text', 1, null]) {
        const { detail = '', pointer } = faultOf(() => checkBody(route.body, body))
        assert.equal(pointer, '', nameOf(route))
        assert.match(detail, /^must be an object with the fields /, nameOf(route))
        for (const name of Object.keys(propertiesOf(route.body)))
          assert.ok(detail.includes(name), nameOf(route))
      }
    }
    const check = {
      body: (name: string, value: unknown) => checkBody(route.body, { [name]: value }),
      query: (name: string, value: unknown) =>
        checkQuery(route.query, new URLSearchParams([[name, String(value)]])),
    }
    for (const place of ['body', 'query'] as const) {
      for (const [name, field] of Object.entries<Field>(propertiesOf(route[place]))) {
        const taken: string[] | undefined = field.enum ?? field.items?.enum
        if (!taken) continue
        const value = field.enum ? 'no such word' : ['no such word']
        const pointer = field.enum ? `/${name}` : `/${name}/0`
        const { detail = '' } = faultOf(() => check[place](name, value), pointer)
        for (const word of taken) assert.ok(detail.includes(word), `${nameOf(route)}: ${detail}`)
        words++
      }
    }
  }
  assert.ok(words > 3)
})

type Field = { description?: string; enum?: string[]; items?: { enum?: string[] } }

function propertiesOf(schema: TSchema | undefined): Record<string, Field> {
  // The schema as plain JSON Schema.
  return (schema as { properties?: Record<string, Field> } | undefined)?.properties ?? {}
}

function faultOf(act: () => unknown, pointer?: string): Partial<FieldError> {
  const errors = errorsOf(act)
  assert.ok(errors.length > 0, 'it was accepted')
  return errors.find((one) => pointer === undefined || placeOf(one) === pointer) ?? {}
}

const placeOf = (error: FieldError) => error.pointer ?? `/${error.parameter}`

function errorsOf(act: () => unknown): FieldError[] {
  try {
    act()
  } catch (error) {
    return (error as Problem).errors ?? []
  }
  return []
}

test('every field of webhooks, deliveries, events and pushes has a description', async () => {
  const { paths, components } = (await toAnswer(await fetch(`${service.url}/openapi.json`))).body
  let fields = 0
  const walk = (given: CompletedRequest, place: string): void => {
    const name = given.$ref?.split('/').at(-1)
    const schema: CompletedRequest = name === undefined ? given : components.schemas[name]
    for (const [property, field] of Object.entries(schema.properties ?? {})) {
      const parts = [field, ...(field.anyOf ?? [])]
      const described = parts.map(({ description = '' }) => description).join(' ')
      assert.ok(described.trim(), `${place}.${property}`)
      const isTime = /(At|Since|Until)$/.test(property)
      if (isTime)
        assert.match(described, /milliseconds since the Unix epoch/, `${place}.${property}`)
      const mayBeNull = parts.some(({ type }) => type === 'null')
      if (mayBeNull) assert.match(described, /\bnull\b/, `${place}.${property}`)
      fields++
      walk(field, `${place}.${property}`)
    }
    for (const part of [schema.items, ...(schema.anyOf ?? [])]) if (part) walk(part, place)
  }
  for (const [path, operations] of Object.entries<object>(paths)) {
    if (!/^\/events$|\/(webhooks|pushes)(\/|$)/.test(path)) continue
    for (const [method, { responses }] of Object.entries(operations)) {
      for (const status of [200, 201, 202]) {
        const schema = responses[status]?.content?.['application/json']?.schema
        if (schema) walk(schema, `${method} ${path}`)
      }
    }
  }
  assert.ok(fields > 100, String(fields))
})

type CompletedRequest = {
  $ref?: string
  type?: string
  description?: string
  properties?: Record<string, CompletedRequest>
  items?: CompletedRequest
  anyOf?: CompletedRequest[]
}

type Clients = Awaited<ReturnType<typeof makeClients>>

async function makeClients({ url, adminToken, client }: InProcess) {
  const [owner, stranger, collaborator] = await Promise.all(
    ['owner', 'stranger', 'collaborator'].map((username) =>
      client({ username, permissions: everything }),
    ),
  )
  assert.ok(owner && stranger && collaborator)
  return { admin: createClient(url, adminToken), owner, stranger, collaborator }
}

function nameOf({ method, path }: Route): string {
  return `${method} ${path}`
}

function permissionOf(route: JsonRoute | StreamRoute, path: string): string | undefined {
  if (route.kind === 'json') return route.permission
  return route.permissionFor(new URL(path, 'http://x').searchParams)
}

async function send(method: string, path: string, token: string, type: string): Promise<Answer> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': type }
  return toAnswer(
    await fetch(service.url + path, { method, headers, body: Buffer.from('{"name":"x"}') }),
  )
}

// Stricter than the schema as published: a field that it does not name is a fault of the documentation.
function assertMatches(schema: TSchema, value: unknown): void {
  const closed = JSON.parse(JSON.stringify(schema), (_, part) =>
    part?.properties && part.required ? { ...part, additionalProperties: false } : part,
  )
  const ajv = new Ajv({ allErrors: true, strict: false })
  assert.ok(ajv.validate(closed, value), ajv.errorsText())
}
