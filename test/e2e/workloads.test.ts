// Tags: each-store
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { base64url, exportSPKI, importJWK, SignJWT } from 'jose'
import { createProject, type Project } from '../support/git.ts'
import { type Claims, type Issuer, newKey, sendExchange, startIssuer } from '../support/issuer.ts'
import { mustClaim, wholeRun } from '../support/run-by-hand.ts'
import {
  type Client,
  createClient,
  type Service,
  startService,
  toAnswer,
} from '../support/service.ts'
import { pushFiles } from '../support/workflow-site.ts'

const audience = 'https://svc.example.com'
const grants = [
  ...['repo:read', 'repo:write', 'repo:delete', 'collaborator:read', 'collaborator:write'],
  ...['workflow:read', 'workflow:trigger'],
]

let service: Service
let issuer: Issuer
let project: Project
let ada: Client

before(async () => {
  service = await startService({ env: { SVC_BAD_TOKENS_PER_MINUTE: '1000' } })
  issuer = await startIssuer()
  project = await createProject()
  ada = await service.client({ username: 'ada', permissions: grants })
  for (const name of ['site', 'vault']) {
    await ada.post('/repos', { name })
    await project.git('push', ada.remote(name), 'HEAD:main')
  }
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await issuer[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

/** The claims of jobs, as the documentation of each CI service shows them. */
const github = {
  aud: audience,
  sub: 'repo:acme/site:ref:refs/heads/main',
  repository: 'acme/site',
  repository_id: '74',
  repository_owner: 'acme',
  ref: 'refs/heads/main',
  environment: 'prod',
  runner_environment: 'github-hosted',
}
const gitlab = {
  aud: audience,
  sub: 'project_path:acme/site:ref_type:branch:ref:feature/x',
  project_path: 'acme/site',
  project_id: '22',
  ref: 'feature/x',
  ref_type: 'branch',
  ref_protected: 'true',
  user_access_level: 'maintainer',
}
const kubernetes = {
  aud: [audience],
  sub: 'system:serviceaccount:builds:pusher',
  'kubernetes.io': {
    namespace: 'builds',
    serviceaccount: { name: 'pusher', uid: 'a709ef71' },
    pod: { name: 'build-1', uid: '900f80ed' },
  },
}

/** Creates a trust rule for `site`. */
async function addRule(given: object = {}, by: Client = ada) {
  const { status, body, text } = await by.post('/trust-rules', {
    ...{ name: 'deploy', issuer: issuer.url, audience, repositories: ['site'] },
    ...{ claims: { sub: github.sub }, permissions: ['repo:read', 'repo:write'], ...given },
  })
  assert.equal(status, 201, text)
  return body
}

/** Exchanges a token of a job with these claims. */
async function exchange(claims: Claims): Promise<Client> {
  const answer = await toAnswer(await sendExchange(service, await issuer.sign(claims)))
  assert.equal(answer.status, 200, answer.text)
  const { access_token, ...rest } = answer.body
  assert.deepEqual(Object.keys(rest), ['issued_token_type', 'token_type', 'expires_in', 'scope'])
  assert.equal(rest.issued_token_type, 'urn:ietf:params:oauth:token-type:access_token')
  assert.deepEqual([rest.token_type, rest.expires_in], ['Bearer', 3600])
  assert.equal(answer.headers.get('cache-control'), 'no-store')
  return createClient(service.url, access_token)
}

for (const [name, claims, patterns] of [
  ['GitHub Actions', github, { sub: 'repo:acme/site:ref:refs/heads/*', environment: 'prod' }],
  ['GitLab CI', gitlab, { project_path: 'acme/site', ref_protected: 'true' }],
  ['Kubernetes', kubernetes, { sub: 'system:serviceaccount:builds:*' }],
] as const) {
  test(`a job of ${name} pushes what its rule allows, without a stored token`, async () => {
    const refs = ['refs/heads/built/*']
    const rule = await addRule({ name: 'builds', claims: patterns, refs })
    const job = await exchange(claims)
    await project.git('push', job.remote('site'), `HEAD:built/${claims.sub.length}`)
    const username = `builds[workload:${claims.sub}]`
    const [push] = (await ada.get('/repos/site/pushes')).body
    assert.equal(push.actor.username, username)
    const { body: events } = await ada.get('/events?repository=site')
    assert.equal(events.at(-1).actor.username, username)
    const { body: audit } = await service.admin.get('/audit?action=token.exchanged&limit=1')
    assert.deepEqual(
      [audit[0].actor.username, audit[0].repoName, audit[0].data.ruleId, audit[0].data.subject],
      [username, 'site', rule.id, claims.sub],
    )
    assert.equal(audit[0].actor.id, events.at(-1).actor.id)

    await assert.rejects(project.git('push', job.remote('site'), 'HEAD:other'), /may not change/)
    const hidden = ['vault', 'never'].map(async (other) =>
      (await job.get(`/repos/${other}`)).text.replaceAll(other, '*'),
    )
    assert.equal(new Set(await Promise.all(hidden)).size, 1)
    await assert.rejects(project.git('ls-remote', job.remote('vault')), /not found/)
    for (const [method, path, body] of [
      ['PATCH', '/repos/site', { description: 'mine' }],
      ['PUT', '/repos/site/protections/branches/main', {}],
      ['POST', '/repos/site/workflows', {}],
      ['POST', '/repos/site/collaborators', { username: 'eve' }],
      ['POST', '/repos', { name: 'another' }],
      ['POST', '/tokens/delegate', { name: 'longer' }],
      ['POST', '/login-codes', {}],
      ['GET', '/keys', undefined],
      ['GET', '/trust-rules', undefined],
    ] as const) {
      assert.equal((await job.call(method, path, body)).status, 403, `${method} ${path}`)
    }
    assert.equal((await ada.get(`/trust-rules/${rule.id}`)).body.lastUsedAt > 0, true)

    assert.equal((await ada.delete(`/trust-rules/${rule.id}`)).status, 204)
    assert.equal((await job.get('/repos/site')).status, 401)
    const gone = await toAnswer(await sendExchange(service, await issuer.sign(claims)))
    assert.equal(gone.status, 400)
  })
}

test('a run of an svc exchanges its ID token', async () => {
  const file = '.svc/workflows/deploy.yml'
  const text = 'jobs: { deploy: { permissions: { id-token: write }, steps: [{ run: x }] } }\n'
  const onOther = 'on: { push: { branches: [other, last] } }\n'
  await pushFiles(ada, 'source', { [file]: text })
  await pushFiles(ada, 'built', { [file]: onOther + text })
  await ada.post('/repos/source/workflows', {})
  const run = await mustClaim(service.admin)
  const { url, token } = run.plan.identities[0]?.idTokens ?? assert.fail('no ID tokens')
  const headers = { authorization: `bearer ${token}` }
  const { body } = await toAnswer(await fetch(`${url}&audience=other-svc`, { headers }))
  const { body: source } = await ada.get('/repos/source')
  const claims = { sub: `repo:ada/source@${source.id}:ref:refs/heads/main` }
  const rule = { issuer: service.url, audience: 'other-svc', claims, repositories: ['built'] }
  const starting = await ada.post('/trust-rules', {
    ...{ name: 'starting', ...rule, permissions: ['repo:write', 'workflow:trigger'] },
  })
  assert.match(starting.body.detail, /a run cannot start runs/)
  await addRule(rule)
  const resource = `${service.url}/repos/built.git`
  const answer = await toAnswer(await sendExchange(service, body.value, { resource }))
  assert.equal(answer.status, 200, answer.text)
  const job = createClient(service.url, answer.body.access_token)
  assert.equal((await job.get('/repos/built')).status, 200)
  assert.equal((await job.get('/repos/source')).status, 404)
  // As the token of its job, it starts no runs.
  await project.git('fetch', '--quiet', job.remote('built'), 'main')
  await project.git('push', '--quiet', job.remote('built'), 'FETCH_HEAD:refs/heads/other')
  await project.git('push', '--quiet', ada.remote('built'), 'FETCH_HEAD:refs/heads/last')
  const { body: runs } = await ada.get('/repos/built/workflows')
  assert.deepEqual(
    runs.map(({ branch }: { branch: string }) => branch),
    ['last'],
  )
  await run.report(...wholeRun())
})

test('a token has what the creator of its rule could give at that moment', async () => {
  const bob = await service.client({ username: 'bob', permissions: grants })
  const boss = await service.client({ username: 'boss', permissions: ['admin'] })
  await ada.post('/repos/site/collaborators', { username: 'bob', role: 'admin' })
  const rule = await addRule({ name: 'bobs' }, bob)
  const job = await exchange(github)
  const status = async (client = job) => (await client.get('/repos/site')).status
  assert.equal(await status(), 200)
  await ada.delete('/repos/site/collaborators/bob')
  assert.equal(await status(), 401)
  assert.equal((await ada.get(`/trust-rules/${rule.id}`)).body.inForce, false)
  await ada.post('/repos/site/collaborators', { username: 'bob', role: 'admin' })
  assert.equal(await status(), 200)
  await service.admin.patch('/users/bob', { disabled: true })
  assert.equal(await status(), 401)
  const refused = await toAnswer(await sendExchange(service, await issuer.sign(github)))
  assert.equal(refused.body.error, 'invalid_target')
  const audited = await service.admin.get('/audit?action=token.exchange_refused&limit=1')
  const { subject, repositoryName } = audited.body[0].data
  assert.deepEqual([subject, repositoryName], [github.sub, 'site'])
  await service.admin.patch('/users/bob', { disabled: false })

  // By its id, not by its name.
  await ada.patch('/repos/site', { name: 'moved' })
  assert.deepEqual([await status(), (await job.get('/repos/moved')).status], [404, 200])
  // An old address leads there, as for Git.
  assert.equal((await (await exchange(github)).get('/repos/moved')).status, 200)
  await ada.patch('/repos/moved', { name: 'site' })
  await service.admin.delete('/users/bob')
  assert.equal(await status(), 401)
  assert.equal((await service.admin.get(`/trust-rules/${rule.id}`)).status, 404)

  await addRule({ name: 'of-boss' }, boss)
  const ofBoss = await exchange(github)
  assert.equal(await status(ofBoss), 200)
  await service.admin.delete(`/tokens/${boss.id}`)
  assert.equal(await status(ofBoss), 401)
})

test('a token that does not verify is refused in one sentence', async () => {
  await using strict = await startIssuer()
  await addRule({ name: 'strict', issuer: strict.url })
  const second = await newKey()
  const unusable = await newKey({ use: 'enc' })
  const { publicJwk, kid } = strict.key
  strict.publish([publicJwk, second.publicJwk, unusable.publicJwk])
  const publicKey = await importJWK(publicJwk, 'RS256', { extractable: true })
  const pem = new TextEncoder().encode(await exportSPKI(publicKey as CryptoKey))
  const now = Math.floor(Date.now() / 1000)
  const claims = { ...github, iss: strict.url, iat: now, exp: now + 300 }
  const unsigned = `${base64url.encode(JSON.stringify({ alg: 'none' }))}.${base64url.encode(JSON.stringify(claims))}.`
  const symmetric = await new SignJWT(claims).setProtectedHeader({ alg: 'HS256', kid }).sign(pem)
  const genuine = await strict.sign(github)
  const [head = '', , signature = ''] = genuine.split('.')
  const other = { ...claims, sub: 'repo:acme/other:ref:refs/heads/main' }
  const forged = `${head}.${base64url.encode(JSON.stringify(other))}.${signature}`
  const stranger = 'https://127.0.0.1:9'
  // An unknown issuer looks like a known one without the key.
  const notSigned =
    /^The token is not signed with a key of an issuer that a trust rule names; the log of the server has details.$/
  for (const [token, detail] of [
    ['nonsense', /not a signed JWT/],
    [unsigned, /must be signed with one of RS256/],
    [symmetric, /must be signed with one of RS256/],
    [forged, notSigned],
    [await strict.sign(github, { key: await newKey() }), notSigned],
    [await strict.sign(github, { key: unusable }), notSigned],
    [await strict.sign(github, { header: { kid: undefined } }), notSigned],
    [await strict.sign(github, { age: 400 }), /has expired/],
    [await strict.sign(github, { age: 25 * 3600, lifetime: 90_000 * 2 }), /older than a day/],
    [await strict.sign(github, { age: -120 }), /The claim "(nbf|iat)"/],
    [await strict.sign({ ...github, exp: undefined }), /The claim "exp"/],
    [await strict.sign({ ...github, sub: undefined }), /The claim "sub"/],
    [await strict.sign({ ...github, sub: 'a\nb' }), /1 to 255 characters/],
    [await strict.sign({ ...github, iss: stranger }), notSigned],
    [await strict.sign({ ...github, iss: undefined }), /no issuer/],
    [await strict.sign({ ...github, iss: 'a\0' }), notSigned],
    ['x'.repeat(20_000), /too long/],
  ] as const) {
    const { status, body, text } = await toAnswer(await sendExchange(service, token))
    assert.deepEqual([status, body.code, body.error], [400, 'exchange_refused', 'invalid_request'])
    assert.match(body.error_description, detail, text)
    assert.equal(body.detail, body.error_description)
  }
  assert.equal((await sendExchange(service, genuine)).status, 200)
})

test('the caller learns nothing of rules, and the owner why they refuse', async () => {
  const rule = await addRule({ name: 'shown', claims: { sub: 'repo:acme/*', repository_id: '7' } })
  const texts = new Set<string>()
  for (const [claims, name] of [
    [{ ...github, aud: 'other' }, 'site'],
    [{ ...github, aud: [audience, 'other'] }, 'site'],
    [{ ...github, sub: 'repo:acme/other:x' }, 'site'],
    [{ ...github, sub: 'repo:acme/other:x' }, 'vault'],
    [{ ...github, sub: 'repo:acme/other:x' }, 'never'],
  ] as const) {
    const resource = `${service.url}/repos/${name}.git`
    const token = await issuer.sign(claims)
    const { status, body, text } = await toAnswer(await sendExchange(service, token, { resource }))
    assert.deepEqual([status, body.error], [400, 'invalid_target'])
    texts.add(text)
  }
  assert.equal(texts.size, 1)
  const { body: shown } = await ada.get(`/trust-rules/${rule.id}`)
  assert.equal(shown.lastRefusal, 'The claim "repository_id" is "74", and not "7".')
  assert.ok(shown.lastRefusedAt > 0)
  await ada.delete(`/trust-rules/${rule.id}`)

  const token = await issuer.sign(github)
  for (const [fields, error] of [
    [{ grant_type: 'client_credentials' }, 'unsupported_grant_type'],
    [{ subject_token_type: 'urn:ietf:params:oauth:token-type:saml2' }, 'invalid_request'],
    [{ actor_token: 'x' }, 'invalid_request'],
    [{ resource: 'site' }, 'invalid_target'],
    [{ resource: `${service.url}/repos/%` }, 'invalid_target'],
    [{ resource: 'https://evil.example/repos/site.git' }, 'invalid_target'],
  ] as const) {
    const { body } = await toAnswer(await sendExchange(service, token, fields))
    assert.equal(body.error, error, JSON.stringify(fields))
  }
  const asJson = await service.admin.post('/tokens/exchange', { grant_type: 'x' })
  assert.equal(asJson.status, 415)
})

test('rules are made by owners for their repositories, and seen by them', async () => {
  const eve = await service.client({ username: 'eve', permissions: grants })
  const kate = await service.client({ username: 'kate', permissions: grants })
  await ada.post('/repos', { name: 'shared' })
  await ada.post('/repos/shared/collaborators', { username: 'kate', role: 'maintain' })
  const wanted = {
    ...{ name: 'deploy', issuer: issuer.url, claims: { sub: 'repo:acme/site:*' } },
    ...{ repositories: ['shared'], permissions: ['repo:read'] },
  }
  const limited = await ada.post('/tokens/delegate', { name: 'x', permissions: grants })
  const narrow = await service.client({ username: 'ada', permissions: ['collaborator:write'] })
  for (const [client, given, code] of [
    [eve, {}, 'repository_not_found'],
    [kate, {}, 'owner_required'],
    [narrow, {}, 'permission_missing'],
    [createClient(service.url, limited.body.token), {}, 'token_limited'],
    [ada, { permissions: ['admin'] }, 'invalid_request'],
    [ada, { permissions: [] }, 'invalid_request'],
    [ada, { repositories: [] }, 'invalid_request'],
    [ada, { claims: {} }, 'invalid_request'],
    [ada, { claims: { ref: 'refs/heads/main' } }, 'invalid_request'],
    [ada, { claims: { sub: 'repo:*' } }, 'invalid_request'],
    [ada, { name: 'a[b' }, 'invalid_request'],
    [ada, { issuer: 'http://example.com' }, 'invalid_request'],
    [ada, { issuer: 'https://a:b@example.com' }, 'invalid_request'],
    [ada, { issuer: 'https://example.com/\0' }, 'invalid_request'],
    [ada, { audience: '\0' }, 'invalid_request'],
    [ada, { issuer: 'https://10.0.0.1' }, 'outbound_forbidden'],
    [ada, { refs: ['main'] }, 'invalid_request'],
  ] as const) {
    const { body } = await client.post('/trust-rules', { ...wanted, ...given })
    assert.equal(body.code, code, JSON.stringify(given))
  }
  const { body: rule } = await ada.post('/trust-rules', wanted)
  assert.deepEqual([rule.audience, rule.username, rule.refs], [service.url, 'ada', null])
  for (const id of [rule.id, '01m7zw5rxxmcby16q9cc6g8enj', 'x'])
    assert.equal((await kate.get(`/trust-rules/${id}`)).body.code, 'trust_rule_not_found')
  assert.equal((await kate.get('/trust-rules?repository=shared')).body.code, 'owner_required')
  assert.deepEqual((await kate.get('/trust-rules')).body, [])
  await ada.delete('/repos/shared/collaborators/kate')
  await ada.post('/repos/shared/collaborators', { username: 'kate', role: 'admin' })
  assert.deepEqual((await kate.get('/trust-rules?repository=shared')).body, [rule])
  assert.equal((await kate.delete(`/trust-rules/${rule.id}`)).status, 204)
  const { body: events } = await ada.get('/events?repository=shared')
  const kinds = events.map(({ kind }: { kind: string }) => kind)
  assert.ok(kinds.includes('trust_rule.created') && kinds.includes('trust_rule.deleted'))
})

test('a rule of a namespace is for its repositories as long as they are in it, and its creator an admin of it', async () => {
  const { admin } = service
  await admin.post('/namespaces', { name: 'team' })
  const [nell, otto, mona, zoe] = await Promise.all(
    ['nell', 'otto', 'mona', 'zoe'].map((username) =>
      service.client({ username, permissions: ['everything'] }),
    ),
  )
  assert.ok(nell && otto && mona && zoe)
  const nells = '/namespaces/team/members/nell'
  for (const name of ['nell', 'otto'])
    await admin.put(`/namespaces/team/members/${name}`, { role: 'admin' })
  await admin.put('/namespaces/team/members/mona', { role: 'maintain' })
  for (const name of ['team/one', 'team/two', 'mine']) {
    await nell.post('/repos', { name })
    await project.git('push', nell.remote(name), 'HEAD:main')
  }
  const wanted = {
    ...{ name: 'team', issuer: issuer.url, audience, permissions: ['repo:read', 'repo:write'] },
    ...{ claims: { sub: 'repo:team/all:*' }, namespace: 'team', repositories: undefined },
  }
  for (const [client, given, code] of [
    [mona, {}, 'role_insufficient'],
    [zoe, {}, 'namespace_not_found'],
    [nell, { repositories: ['mine'] }, 'invalid_request'],
    [nell, { repositories: ['team/one', 'site'] }, 'repository_not_found'],
    [nell, { namespace: undefined }, 'invalid_request'],
  ] as const) {
    const { body } = await client.post('/trust-rules', { ...wanted, ...given })
    assert.equal(body.code, code, JSON.stringify(given))
  }
  const sub = 'repo:team/some:main'
  const all = await addRule(wanted, nell)
  const some = await addRule({ ...wanted, claims: { sub }, repositories: ['team/one'] }, nell)
  assert.deepEqual(
    [all.namespace, all.repositories, some.repositories],
    ['team', null, ['team/one']],
  )
  const list = '/trust-rules?namespace=team'
  assert.deepEqual((await otto.get(list)).body, [all, some])
  assert.equal((await mona.get(list)).body.code, 'role_insufficient')
  const [hidden, unused] = [await zoe.get(list), await zoe.get('/trust-rules?namespace=unused')]
  assert.deepEqual([hidden.status, unused.status], [404, 404])
  assert.equal(hidden.text.replaceAll('team', 'unused'), unused.text)
  assert.equal((await otto.get(`${list}&repository=team%2Fone`)).status, 400)
  for (const client of [mona, zoe])
    assert.equal((await client.get(`/trust-rules/${all.id}`)).body.code, 'trust_rule_not_found')
  // The rules of a repository are its own.
  assert.deepEqual((await nell.get('/trust-rules?repository=team%2Fone')).body, [])

  const send = async (subject: string, name: string) => {
    const jwt = await issuer.sign({ sub: subject, aud: audience })
    const resource = `${service.url}/repos/${name}.git`
    return toAnswer(await sendExchange(service, jwt, { resource }))
  }
  const tokenFor = async (subject: string) => {
    const { body, text } = await send(subject, 'team/one')
    assert.ok(body.access_token, text)
    return createClient(service.url, body.access_token)
  }
  const [ofAll, ofSome] = [await tokenFor('repo:team/all:main'), await tokenFor(sub)]
  const statuses = (client: Client, ...names: string[]) =>
    Promise.all(
      names.map(async (name) => (await client.get(`/repos/${encodeURIComponent(name)}`)).status),
    )
  await project.git('push', ofAll.remote('team/two'), 'HEAD:built')
  assert.deepEqual(await statuses(ofAll, 'team/one', 'mine', 'site'), [200, 404, 404])
  assert.deepEqual(await statuses(ofSome, 'team/one', 'team/two'), [200, 404])
  const guarded = await ofAll.put('/repos/team%2Fone/protections/branches/main')
  assert.equal(guarded.body.code, 'token_limited')
  await nell.post('/repos', { name: 'team/three' })
  assert.deepEqual(await statuses(ofAll, 'team/three'), [200])

  // One that leaves is covered no more, though the creator of the rules owns it, until it is back.
  await nell.patch('/repos/team%2Fone', { name: 'one' })
  assert.deepEqual(await statuses(ofAll, 'one', 'team/two'), [404, 200])
  assert.deepEqual(await statuses(ofSome, 'one', 'team/two'), [404, 404])
  await assert.rejects(project.git('push', ofAll.remote('one'), 'HEAD:built'), /not found/)
  for (const subject of ['repo:team/all:main', sub])
    assert.equal((await send(subject, 'one')).body.error, 'invalid_target')
  assert.deepEqual((await nell.get(`/trust-rules/${some.id}`)).body.repositories, [])
  await nell.patch('/repos/one', { name: 'team/one' })
  await admin.patch('/namespaces/team', { name: 'crew' })
  assert.deepEqual(await statuses(ofAll, 'crew/one', 'crew/two'), [200, 200])
  assert.deepEqual(await statuses(ofSome, 'crew/one'), [200])
  assert.equal((await otto.get(`/trust-rules/${all.id}`)).body.namespace, 'crew')

  // As a maintainer, the creator could not create it.
  await admin.put(nells.replace('team', 'crew'), { role: 'maintain' })
  assert.deepEqual(await statuses(ofAll, 'crew/one'), [401])
  assert.equal((await send(sub, 'crew/one')).body.error, 'invalid_target')
  const { body: lost } = await nell.get(`/trust-rules/${all.id}`)
  assert.deepEqual([lost.namespace, lost.inForce], [null, false])
  await admin.put(nells.replace('team', 'crew'), { role: 'admin' })
  assert.deepEqual(await statuses(ofAll, 'crew/one'), [200])
  assert.equal((await otto.delete(`/trust-rules/${some.id}`)).status, 204)
  assert.deepEqual(await statuses(ofSome, 'crew/one'), [401])
  const { body: audit } = await admin.get('/audit?action=trust_rule.deleted&limit=1')
  assert.deepEqual(
    [audit[0].repoName, audit[0].data],
    [null, { ruleId: some.id, name: 'team', namespace: 'crew' }],
  )

  for (const name of ['one', 'two', 'three'])
    await nell.patch(`/repos/crew%2F${name}`, { name: `old-${name}` })
  assert.equal((await otto.delete('/namespaces/crew')).status, 204)
  assert.deepEqual(await statuses(ofAll, 'old-one'), [401])
  assert.equal((await nell.get(`/trust-rules/${all.id}`)).status, 404)
})
