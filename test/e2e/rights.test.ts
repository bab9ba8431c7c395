// Tags: each-store

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Permission, permissions } from '#access/permissions.ts'
import { roles } from '#access/roles.ts'
import { onEachServer } from '../support/each-server.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { sendExchange, startIssuer } from '../support/issuer.ts'
import { logIn } from '../support/page-client.ts'
import {
  type Client,
  createClient,
  type Service,
  startServiceWithSsh,
  toAnswer,
} from '../support/service.ts'
import { createSshUser } from '../support/ssh-user.ts'

/** The table of rights: what a route takes. An address without `site` is not about a repository. */
type Row = {
  takes: Permission | 'any'
  /** A further permission that it takes. */
  alsoTakes?: Permission
  /** The least role of a collaborator, if `write`, or `read` for a permission to read, is not enough. */
  least?: 'maintain' | 'admin'
  /** Whether it is a setting of the repository, which takes a token for all refs. */
  isSetting?: true
  /** Whether only admins may use it. */
  isForAdmins?: true
  /** For addresses without a repository: whether tokens for some repositories are accepted. */
  allowsLimited?: true
  /** Whether it changes nothing but what is proposed, so that readers may. */
  isProposal?: true
}

const maintainers = { least: 'maintain' } as const
const ofShells = { takes: 'secrets:write', alsoTakes: 'workflow:trigger', least: 'admin' } as const
const limited = { allowsLimited: true } as const

const table: Record<string, Row> = {
  'GET /repos': { takes: 'repo:read', ...limited },
  'GET /activity': { takes: 'repo:read', ...limited },
  'POST /repos': { takes: 'repo:write' },
  'POST /repos/import': { takes: 'repo:write' },
  'GET /repos/{name}': { takes: 'repo:read' },
  'PATCH /repos/{name}': { takes: 'repo:write', isSetting: true },
  'DELETE /repos/{name}': { takes: 'repo:delete' },
  'POST /repos/{name}/check': { takes: 'repo:read' },
  'GET /repos/{name}/protections/branches': { takes: 'repo:read' },
  'PUT /repos/{name}/protections/branches/{branch}': { takes: 'repo:write', ...maintainers },
  'DELETE /repos/{name}/protections/branches/{branch}': { takes: 'repo:write', ...maintainers },
  'GET /repos/{name}/protections/tags': { takes: 'repo:read' },
  'PUT /repos/{name}/protections/tags/{pattern}': { takes: 'repo:write', ...maintainers },
  'DELETE /repos/{name}/protections/tags/{pattern}': { takes: 'repo:write', ...maintainers },
  'GET /repos/{name}/collaborators': { takes: 'collaborator:read' },
  'POST /repos/{name}/collaborators': { takes: 'collaborator:write' },
  'DELETE /repos/{name}/collaborators/{username}': { takes: 'collaborator:write' },
  'GET /repos/{name}/secrets': { takes: 'secrets:read' },
  'PUT /repos/{name}/secrets/{secretName}': { takes: 'secrets:write', isSetting: true },
  'DELETE /repos/{name}/secrets/{secretName}': { takes: 'secrets:write', isSetting: true },
  'GET /repos/{name}/annotations': { takes: 'workflow:read' },
  'GET /repos/{name}/workflows': { takes: 'workflow:read' },
  'POST /repos/{name}/workflows': { takes: 'workflow:trigger' },
  'POST /repos/{name}/workflows/validate': { takes: 'workflow:read' },
  'GET /repos/{name}/workflows/{id}': { takes: 'workflow:read' },
  'GET /repos/{name}/workflows/{id}/logs': { takes: 'workflow:read' },
  'POST /repos/{name}/workflows/{id}/cancel': { takes: 'workflow:trigger' },
  'POST /repos/{name}/workflows/{id}/rerun': { takes: 'workflow:trigger' },
  'POST /repos/{name}/workflows/{id}/approve': { takes: 'workflow:trigger' },
  'POST /repos/{name}/workflows/{id}/shells': ofShells,
  'GET /repos/{name}/workflows/{id}/shells/{shell}/output': ofShells,
  'POST /repos/{name}/workflows/{id}/shells/{shell}/input': ofShells,
  'DELETE /repos/{name}/workflows/{id}/shells/{shell}': ofShells,
  'GET /repos/{name}/workflows/{id}/artifacts': { takes: 'workflow:read' },
  'GET /repos/{name}/workflows/{id}/artifacts/{artifact}': { takes: 'workflow:read' },
  'DELETE /repos/{name}/workflows/{id}/artifacts/{artifact}': { takes: 'workflow:trigger' },
  'GET /repos/{name}/run-files': { takes: 'workflow:read' },
  'GET /repos/{name}/caches': { takes: 'workflow:read' },
  'DELETE /repos/{name}/caches': { takes: 'workflow:trigger' },
  'DELETE /repos/{name}/caches/{id}': { takes: 'workflow:trigger' },
  'GET /repos/{name}/webhooks': { takes: 'webhook:read', ...maintainers },
  'POST /repos/{name}/webhooks': { takes: 'webhook:write', ...maintainers },
  'GET /repos/{name}/webhooks/{id}': { takes: 'webhook:read', ...maintainers },
  'PATCH /repos/{name}/webhooks/{id}': { takes: 'webhook:write', ...maintainers },
  'DELETE /repos/{name}/webhooks/{id}': { takes: 'webhook:write', ...maintainers },
  'GET /repos/{name}/webhooks/{id}/deliveries': { takes: 'webhook:read', ...maintainers },
  'GET /repos/{name}/webhooks/{id}/deliveries/{deliveryId}': {
    takes: 'webhook:read',
    ...maintainers,
  },
  'POST /repos/{name}/webhooks/{id}/deliveries/{deliveryId}/retry': {
    takes: 'webhook:write',
    ...maintainers,
  },
  'POST /repos/{name}/webhooks/{id}/ping': { takes: 'webhook:write', ...maintainers },
  'POST /repos/{name}/webhooks/{id}/replay': { takes: 'webhook:write', ...maintainers },
  'GET /repos/{name}/archive': { takes: 'repo:read' },
  'GET /repos/{name}/blame': { takes: 'repo:read' },
  'GET /repos/{name}/branches': { takes: 'repo:read' },
  'GET /repos/{name}/commits': { takes: 'repo:read' },
  'GET /repos/{name}/compare': { takes: 'repo:read' },
  'GET /repos/{name}/file': { takes: 'repo:read' },
  'GET /repos/{name}/search': { takes: 'repo:read' },
  'GET /repos/{name}/tags': { takes: 'repo:read' },
  'GET /repos/{name}/commits/{id}': { takes: 'repo:read' },
  'GET /repos/{name}/statuses': { takes: 'workflow:read' },
  'GET /repos/{name}/commits/{commit}/statuses': { takes: 'workflow:read' },
  'POST /repos/{name}/commits/{commit}/statuses': { takes: 'status:write' },
  'GET /repos/{name}/tree': { takes: 'repo:read' },
  'GET /repos/{name}/pushes': { takes: 'repo:read' },
  'GET /repos/{name}/pushes/{id}': { takes: 'repo:read' },
  'POST /repos/{name}/pushes/{id}/undo': { takes: 'repo:write' },
  'POST /repos/{name}/commits': { takes: 'repo:write', alsoTakes: 'repo:read' },
  'GET /changes': { takes: 'repo:read', ...limited },
  'GET /repos/{name}/changes': { takes: 'repo:read' },
  'POST /repos/{name}/changes': { takes: 'change:write' },
  'POST /repos/{name}/proposals': { takes: 'repo:write', alsoTakes: 'repo:read', isProposal: true },
  'GET /repos/{name}/changes/{number}': { takes: 'repo:read' },
  'GET /repos/{name}/changes/{number}/diff': { takes: 'repo:read' },
  'PATCH /repos/{name}/changes/{number}': { takes: 'change:write' },
  'GET /repos/{name}/changes/{number}/comments': { takes: 'repo:read' },
  'POST /repos/{name}/changes/{number}/comments': { takes: 'change:write' },
  'PATCH /repos/{name}/changes/{number}/comments/{id}': { takes: 'change:write' },
  'PUT /repos/{name}/changes/{number}/verdict': { takes: 'change:write' },
  'POST /repos/{name}/changes/{number}/land': { takes: 'repo:write', alsoTakes: 'repo:read' },
  'DELETE /repos/{name}/changes/{number}/land': { takes: 'change:write' },
  'GET /repos/{name}/queue': { takes: 'repo:read' },
  'POST /repos/{name}/merges': { takes: 'repo:write', alsoTakes: 'repo:read' },
  'PUT /repos/{name}/refs': { takes: 'repo:write', alsoTakes: 'repo:read' },
  'DELETE /repos/{name}/refs': { takes: 'repo:write', alsoTakes: 'repo:read' },
  'GET /namespaces': { takes: 'repo:read' },
  'POST /namespaces': { takes: 'repo:write', isForAdmins: true },
  'GET /namespaces/{namespace}': { takes: 'repo:read' },
  'PATCH /namespaces/{namespace}': { takes: 'repo:write' },
  'DELETE /namespaces/{namespace}': { takes: 'repo:delete' },
  'GET /namespaces/{namespace}/protections/branches': { takes: 'repo:read' },
  'PUT /namespaces/{namespace}/protections/branches/{branch}': { takes: 'repo:write' },
  'DELETE /namespaces/{namespace}/protections/branches/{branch}': { takes: 'repo:write' },
  'GET /namespaces/{namespace}/protections/tags': { takes: 'repo:read' },
  'PUT /namespaces/{namespace}/protections/tags/{pattern}': { takes: 'repo:write' },
  'DELETE /namespaces/{namespace}/protections/tags/{pattern}': { takes: 'repo:write' },
  'GET /namespaces/{namespace}/secrets': { takes: 'secrets:read' },
  'PUT /namespaces/{namespace}/secrets/{secretName}': { takes: 'secrets:write' },
  'DELETE /namespaces/{namespace}/secrets/{secretName}': { takes: 'secrets:write' },
  'GET /namespaces/{namespace}/webhooks': { takes: 'webhook:read' },
  'POST /namespaces/{namespace}/webhooks': { takes: 'webhook:write' },
  'GET /namespaces/{namespace}/webhooks/{id}': { takes: 'webhook:read' },
  'PATCH /namespaces/{namespace}/webhooks/{id}': { takes: 'webhook:write' },
  'DELETE /namespaces/{namespace}/webhooks/{id}': { takes: 'webhook:write' },
  'GET /namespaces/{namespace}/webhooks/{id}/deliveries': { takes: 'webhook:read' },
  'GET /namespaces/{namespace}/webhooks/{id}/deliveries/{deliveryId}': { takes: 'webhook:read' },
  'POST /namespaces/{namespace}/webhooks/{id}/deliveries/{deliveryId}/retry': {
    takes: 'webhook:write',
  },
  'POST /namespaces/{namespace}/webhooks/{id}/ping': { takes: 'webhook:write' },
  'POST /namespaces/{namespace}/webhooks/{id}/replay': { takes: 'webhook:write' },
  'GET /namespaces/{namespace}/usage': { takes: 'repo:read' },
  'GET /namespaces/{namespace}/members': { takes: 'collaborator:read' },
  'PUT /namespaces/{namespace}/members/{member}': { takes: 'collaborator:write' },
  'DELETE /namespaces/{namespace}/members/{member}': { takes: 'collaborator:write' },
  'GET /events': { takes: 'any', ...limited },
  'GET /user': { takes: 'any', ...limited },
  'GET /users': { takes: 'admin' },
  // Of another user.
  'GET /users/{username}': { takes: 'admin' },
  'PATCH /users/{username}': { takes: 'admin' },
  'DELETE /users/{username}': { takes: 'admin' },
  'GET /tokens': { takes: 'admin' },
  'POST /tokens': { takes: 'admin' },
  'DELETE /tokens/{id}': { takes: 'admin' },
  'POST /tokens/delegate': { takes: 'any', ...limited },
  'GET /tokens/delegated': { takes: 'any', ...limited },
  'DELETE /tokens/delegated/{id}': { takes: 'any', ...limited },
  'POST /login-codes': { takes: 'any', ...limited },
  'GET /keys': { takes: 'any' },
  'POST /keys': { takes: 'any' },
  'DELETE /keys/{id}': { takes: 'any' },
  'GET /trust-rules': { takes: 'collaborator:read' },
  'POST /trust-rules': { takes: 'collaborator:write' },
  'GET /trust-rules/{id}': { takes: 'collaborator:read' },
  'DELETE /trust-rules/{id}': { takes: 'collaborator:write' },
  'GET /step-network': { takes: 'workflow:read', ...limited },
  'GET /audit': { takes: 'admin' },
  'GET /metrics': { takes: 'metrics:read' },
  'GET /deleted-repos': { takes: 'repo:read', ...limited },
}

/** Routes that other tests have: of runners, Git and MCP, without a token, and of deleted repositories by their ids. */
const elsewhere =
  /^GET \/(health|openapi\.json|docs|llms\.txt|\.well-known\/.*)$|^POST \/tokens\/exchange$|^\w+ \/(mcp|runner|deleted-repos\/\{id\})|(git-(upload-(pack|archive)|receive-pack)|info\/refs|info\/lfs\/.*)$/

type Outcome = string

/** The first is private, the others have their visibility as a name. */
const repositories = ['site', 'internal', 'public'] as const
/** Private ones in a namespace, where some have a role as its members. */
const inNamespace = 'acme/site'

/** A caller, with what the table needs to know of it. */
type Caller = {
  who: string
  client: Client
  permissions: readonly Permission[]
  repository: (typeof repositories)[number] | typeof inNamespace
  /** In the repository; undefined if it cannot see it. A visitor is let in by the visibility alone. */
  role: (typeof roles)[number] | 'visitor' | undefined
  isLimited: boolean
  hasRefs?: boolean
  /** Whether it is a workload, whose token is only for requests about its repositories. */
  isWorkload?: true
}

function expected(
  { takes, alsoTakes, least, isSetting, allowsLimited, isForAdmins, isProposal }: Row,
  path: string,
  caller: Caller,
): Outcome {
  const { role, isLimited, hasRefs } = caller
  const holds = (one: Permission) =>
    caller.permissions.includes(one) || caller.permissions.includes('admin')
  if (caller.isWorkload && !path.startsWith('/repos/{name}')) {
    // Namespaces are found before the kind of the caller counts.
    const isOfNamespace = isForAdmins || path.startsWith('/namespaces/')
    return isOfNamespace && takes !== 'any' && holds(takes) ? 'token_limited' : 'permission_missing'
  }
  if (takes !== 'any' && !holds(takes)) return 'permission_missing'
  if (alsoTakes && !holds(alsoTakes)) return 'permission_missing'
  if (isForAdmins && !isLimited && !hasRefs && !holds('admin')) return 'permission_missing'
  if (isForAdmins && hasRefs) return 'token_limited'
  if (!path.startsWith('/repos/{name}'))
    return isLimited && !allowsLimited ? 'token_limited' : 'allowed'
  if (role === undefined) return 'repository_not_found'
  // Everybody who can see a repository may propose changes.
  const proposes = isProposal || takes === 'change:write'
  const readers = takes.endsWith(':read') || proposes
  const visitors = takes === 'repo:read' || takes === 'workflow:read' || proposes
  if (role === 'visitor') return visitors ? 'allowed' : 'role_insufficient'
  if (role === 'read' && !readers) return 'role_insufficient'
  if (hasRefs && (isSetting || (least && !takes.endsWith(':read')))) return 'token_limited'
  if (least && roles.indexOf(role) < roles.indexOf(least)) return 'owner_required'
  return 'allowed'
}

/** Whether a caller is refused. No request changes anything: a body with an unknown field is refused only after its caller. */
async function attempt(
  { client, repository }: Caller,
  method: string,
  path: string,
): Promise<Outcome> {
  const name = encodeURIComponent(repository)
  const address = path.replace('{name}', name).replaceAll(/\{\w+\}/g, 'none')
  const body = method === 'GET' ? undefined : { 'no/such': 1 }
  const answer = await client.call(method, address, body)
  const { code } = answer.body ?? {}
  if (answer.status === 403 || code === 'repository_not_found') return code
  assert.ok([200, 400, 404].includes(answer.status), `${method} ${path}: ${answer.text}`)
  return 'allowed'
}

/** Pages, with what they take. */
const pageRows: Record<string, Row> = {
  '': { takes: 'repo:read' },
  '/changes': { takes: 'repo:read' },
  '/pushes': { takes: 'repo:read' },
  '/runs': { takes: 'workflow:read' },
  '/webhooks': { takes: 'webhook:read', ...maintainers },
}

const everything = permissions.filter((one) => one !== 'admin')

/** The callers; a new kind of one is a row here, with its role in a repository. */
async function createCallers({ admin, client, url }: Service): Promise<Caller[]> {
  const owner = await client({ username: 'ada', permissions: everything })
  await owner.post('/repos', { name: 'site' })
  await owner.post('/repos', { name: 'other' })
  for (const visibility of ['internal', 'public'])
    await owner.post('/repos', { name: visibility, visibility })
  const callers: Caller[] = []
  const add = (who: string, one: Client, rest: Partial<Caller>) =>
    callers.push({
      who,
      client: one,
      permissions: everything,
      repository: 'site',
      role: undefined,
      isLimited: false,
      ...rest,
    })
  add('an admin', admin, { permissions: ['admin'], role: 'admin' })
  add('the owner', owner, { role: 'admin' })
  for (const permission of everything) {
    const one = await client({ username: 'ada', permissions: [permission] })
    add(`the owner with ${permission}`, one, { permissions: [permission], role: 'admin' })
  }
  for (const role of roles) {
    await owner.post('/repos/site/collaborators', { username: `a-${role}`, role })
    const one = await client({ username: `a-${role}`, permissions: everything })
    add(`a collaborator with the role ${role}`, one, { role })
  }
  const stranger = await client({ username: 'eve', permissions: everything })
  add('a stranger', stranger, {})
  await admin.post('/namespaces', { name: 'acme' })
  await admin.post('/repos', { name: inNamespace })
  for (const role of ['read', 'maintain'] as const) {
    await admin.put(`/namespaces/acme/members/m-${role}`, { role })
    const one = await client({ username: `m-${role}`, permissions: everything })
    add(`a member of its namespace with the role ${role}`, one, { role, repository: inNamespace })
    add(`a member of a namespace, in another one`, one, {})
  }
  add('a stranger in a namespace', stranger, { repository: inNamespace })
  for (const repository of ['internal', 'public'] as const)
    add(`a stranger in an ${repository} one`, stranger, { repository, role: 'visitor' })
  const ofLimited = everything.filter((one) => one !== 'runner' && one !== 'metrics:read')
  const made = async (by: Client, path: string, wanted: object) => {
    const { status, body, text } = await by.post(path, { name: 'limited', ...wanted })
    assert.equal(status, 201, text)
    return createClient(url, body.token, { id: body.id, username: body.username })
  }
  const part = { username: 'ada', permissions: ofLimited }
  const ofSite = await made(admin, '/tokens', { ...part, repositories: ['site'] })
  const ofOther = await made(admin, '/tokens', { ...part, repositories: ['other'] })
  const rest = { permissions: ofLimited, isLimited: true }
  add('a token for the repository', ofSite, { ...rest, role: 'admin' })
  add('a token for another repository', ofOther, rest)
  const ofEve = { username: 'eve', permissions: ofLimited, repositories: ['public'] }
  const ofPublic = await made(admin, '/tokens', ofEve)
  add('a token for a public one', ofPublic, { ...rest, repository: 'public', role: 'visitor' })
  add('a token for a public one in an internal one', ofPublic, { ...rest, repository: 'internal' })
  const ofPushers = ofLimited.filter((one) => one !== 'repo:delete' && one !== 'collaborator:write')
  const pushing = { ...part, permissions: ofPushers, refs: ['refs/heads/agents/*'] }
  const ofRefs = await made(admin, '/tokens', pushing)
  add('a token for some refs', ofRefs, { permissions: ofPushers, role: 'admin', hasRefs: true })
  const short = await made(admin, '/tokens', { ...part, expiresInSeconds: 3600 })
  add('a token for an hour', short, { permissions: ofLimited, role: 'admin' })
  const reading: Permission[] = ['repo:read', 'secrets:read']
  const readPart = { permissions: reading }
  const delegated = await made(owner, '/tokens/delegate', readPart)
  add('a delegated token', delegated, { permissions: reading, role: 'admin' })
  const again = await made(ofSite, '/tokens/delegate', readPart)
  add('one delegated from a limited one', again, {
    permissions: reading,
    role: 'admin',
    isLimited: true,
  })
  const last = await made(again, '/tokens/delegate', { permissions: ['repo:read'] })
  add('one delegated from that', last, {
    permissions: ['repo:read'],
    role: 'admin',
    isLimited: true,
  })
  await using issuer = await startIssuer()
  const isWorkload = true
  const audience = 'https://svc.example.com'
  const ofWorkload: Permission[] = ['repo:read', 'repo:write', 'workflow:read', 'workflow:trigger']
  for (const name of ['site', 'other']) {
    const { status, text } = await owner.post('/trust-rules', {
      ...{ name: 'ci', issuer: issuer.url, audience, claims: { sub: 'repo:acme/site:*' } },
      ...{ repositories: [name], permissions: ofWorkload },
    })
    assert.equal(status, 201, text)
    const jwt = await issuer.sign({ sub: 'repo:acme/site:main', aud: audience })
    const resource = `${url}/repos/${name}.git`
    const { body } = await toAnswer(await sendExchange({ url }, jwt, { resource }))
    const workload = createClient(url, body.access_token)
    const its = { permissions: ofWorkload, isLimited: true, hasRefs: true, isWorkload } as const
    add(`a workload for ${name}`, workload, { ...its, role: name === 'site' ? 'write' : undefined })
    add(`a workload for ${name} in a public one`, workload, { ...its, repository: 'public' })
  }
  return callers
}

/** The tests of what is the same on each database. */
test(
  'each caller may do what the table says, and the check says the same',
  exhaustive,
  async () => {
    await using service = await startServiceWithSsh()
    const { body: document } = await toAnswer(await fetch(`${service.url}/openapi.json`))
    const operations = Object.entries<Record<string, { operationId: string }>>(
      document.paths,
    ).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { operationId }]) => ({
        name: `${method.toUpperCase()} ${path}`,
        operationId,
      })),
    )
    const ids = new Map(operations.map(({ name, operationId }) => [name, operationId]))
    const routes = [...ids.keys()].filter((name) => !elsewhere.test(name))
    assert.deepEqual(routes.sort(), Object.keys(table).sort())
    const callers = await createCallers(service)
    for (const caller of callers) {
      for (const [name, row] of Object.entries(table)) {
        const [method = '', path = ''] = name.split(' ')
        const wanted = expected(row, path, caller)
        const message = `${caller.who}: ${name}`
        assert.equal(await attempt(caller, method, path), wanted, message)
        if (!path.startsWith('/repos/{name}') || path.endsWith('/check') || caller.isWorkload)
          continue
        const repository = encodeURIComponent(caller.repository)
        const { status, body } = await service.admin.post(`/repos/${repository}/check`, {
          action: ids.get(name),
          tokenId: caller.client.id === '' ? undefined : caller.client.id,
        })
        assert.equal(status, 200, message)
        assert.equal(body.code ?? 'allowed', wanted, `the check of ${message}`)
      }
    }
  },
)

/** The test of what each caller is to the database. */
onEachServer((start) => {
  test('each caller may fetch, push and see the pages that the table says, over HTTP', async () => {
    await using service = await start()
    for (const caller of await createCallers(service)) {
      const { repository } = caller
      const { url, token } = caller.client
      for (const [pack, takes] of [
        ['git-upload-pack', 'repo:read'],
        ['git-receive-pack', 'repo:write'],
      ] as const) {
        const address = `${url}/repos/${repository}.git/info/refs?service=${pack}`
        const headers = { authorization: `Bearer ${token}` }
        const { status } = await fetch(address, { headers })
        const byRole = expected({ takes }, '/repos/{name}', caller)
        // All may fetch it, also with tokens for other repositories.
        const isOpen = repository === 'public' && byRole === 'repository_not_found'
        const wanted = isOpen && takes === 'repo:read' ? 'allowed' : byRole
        // A push may propose a change, which all may who see the repository.
        const mayBegin = wanted === 'allowed' || wanted === 'role_insufficient'
        const answered = mayBegin ? 200 : wanted === 'repository_not_found' ? 404 : 403
        assert.equal(status, answered, `${caller.who}: ${pack}`)
        if (caller.isWorkload) continue
        const { body } = await service.admin.post(
          `/repos/${encodeURIComponent(repository)}/check`,
          {
            action: pack === 'git-upload-pack' ? 'fetch' : 'push',
            tokenId: caller.client.id === '' ? undefined : caller.client.id,
          },
        )
        assert.equal(body.code ?? 'allowed', wanted, `the check of ${caller.who}`)
      }
      if (caller.isWorkload) continue
      const pages = await logIn(url, token)
      for (const [page, row] of Object.entries(pageRows)) {
        const { status } = await pages.get(`/r/${repository}${page}`)
        const wanted = expected(row, '/repos/{name}', caller)
        const answered = wanted === 'allowed' ? 200 : wanted === 'repository_not_found' ? 404 : 403
        assert.equal(status, answered, `${caller.who}: the page ${page}`)
      }
    }
  })
})

test('each key may fetch and push what the table says, over SSH', async () => {
  await using service = await startServiceWithSsh()
  const owner = await service.client({ username: 'ada', permissions: everything })
  await owner.post('/repos', { name: 'site' })
  for (const visibility of ['internal', 'public'])
    await owner.post('/repos', { name: visibility, visibility })
  for (const role of roles)
    await owner.post('/repos/site/collaborators', { username: `a-${role}`, role })
  await owner.post('/repos', { name: 'other' })
  // The second is what a deploy key is limited to.
  const callers: [username: string, limit?: string[]][] = [
    ...['ada', 'eve', ...roles.map((role) => `a-${role}`)].map((name): [string] => [name]),
    ...[['site', 'other'], ['internal']].map((names): [string, string[]] => ['ada', names]),
    ['eve', ['internal']],
  ]
  for (const [username, limit] of callers) {
    const client = await service.client({ username, permissions: everything })
    await using user = await createSshUser(service)
    const { publicKey } = user
    await client.post('/keys', { name: 'laptop', publicKey, repositories: limit })
    for (const repository of username === 'eve' || limit ? repositories : (['site'] as const)) {
      const isWithin = limit?.includes(repository) !== false
      const isOpen = repository === 'public'
      const mayRead = isOpen || (isWithin && (username !== 'eve' || repository !== 'site'))
      // All who see a repository may propose a change.
      const mayPropose = isWithin && (username !== 'eve' || repository !== 'site')
      for (const [pack, isAllowed] of [
        ['git-upload-pack', mayRead],
        ['git-receive-pack', mayPropose],
      ] as const) {
        const { stdout, stderr } = await user.ssh(`${pack} '${repository}.git'`)
        const message = `${username} ${limit}: ${pack} of ${repository}: ${stderr}`
        assert.equal(stdout.includes('0000'), isAllowed, message)
      }
    }
  }
})
