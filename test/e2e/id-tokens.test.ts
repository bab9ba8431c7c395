import assert from 'node:assert/strict'
import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createRemoteJWKSet, decodeProtectedHeader, jwtVerify } from 'jose'
import { temporaryFolder } from '../support/git.ts'
import { type HeldRun, mustClaim, wholeRun } from '../support/run-by-hand.ts'
import {
  type Client,
  createClient,
  type Service,
  startService,
  toAnswer,
} from '../support/service.ts'
import { pushFiles } from '../support/workflow-site.ts'

let service: Service

before(async () => {
  service = await startService()
})

after(() => service[Symbol.asyncDispose]())

const file = '.svc/workflows/deploy.yml'
const deploying = `
name: Deploy
jobs:
  deploy: { permissions: { id-token: write }, steps: [{ run: x }] }
  test: { steps: [{ run: x }] }
`

async function start(owner: Client, { name = 'site', text = deploying, branch = 'main' } = {}) {
  const commit = await pushFiles(owner, name, { [file]: text }, { branch })
  const { body } = await owner.post(`/repos/${name}/workflows`, { branch })
  return { run: await mustClaim(service.admin), commit, number: body.number }
}

/** Requests an ID token as the client of GitHub's toolkit does. */
async function requestToken({ plan }: HeldRun, audience?: string) {
  const { url, token } = plan.identities[0]?.idTokens ?? assert.fail('no ID tokens')
  const address = audience === undefined ? url : `${url}&audience=${encodeURIComponent(audience)}`
  return toAnswer(await fetch(address, { headers: { authorization: `bearer ${token}` } }))
}

/** Verifies a token as other services do, who know the address of the issuer alone. */
async function verified(token: string, audience: string) {
  const { body } = await toAnswer(await fetch(`${service.url}/.well-known/openid-configuration`))
  const { issuer, jwks_uri, id_token_signing_alg_values_supported: algorithms } = body
  assert.equal(issuer, service.url)
  const keys = createRemoteJWKSet(new URL(jwks_uri))
  const { payload } = await jwtVerify(token, keys, { issuer, audience, algorithms })
  return payload
}

test('an ID token says what the job is, and other services can verify it', async () => {
  const owner = await service.client({
    username: 'ada',
    permissions: ['repo:read', 'repo:write', 'workflow:trigger'],
  })
  const { run, commit, number } = await start(owner)
  const before = Math.floor(Date.now() / 1000)
  const { status, body } = await requestToken(run, 'sts.example.com')
  assert.equal(status, 200)
  const {
    jti,
    iat = 0,
    exp = 0,
    nbf = 0,
    ...claims
  } = await verified(body.value, 'sts.example.com')
  const { body: repository } = await owner.get('/repos/site')
  assert.deepEqual(claims, {
    iss: service.url,
    aud: 'sts.example.com',
    sub: `repo:ada/site@${repository.id}:ref:refs/heads/main`,
    ref: 'refs/heads/main',
    ref_type: 'branch',
    sha: commit,
    repository: 'ada/site',
    repository_id: repository.id,
    repository_owner: 'ada',
    repository_visibility: 'private',
    run_id: run.plan.runId,
    run_number: String(number),
    run_attempt: '1',
    actor: 'ada',
    event_name: 'workflow_dispatch',
    head_ref: '',
    base_ref: '',
    workflow: 'Deploy',
    workflow_ref: `ada/site/${file}@refs/heads/main`,
    workflow_sha: commit,
    job_workflow_ref: `ada/site/${file}@refs/heads/main`,
    job_workflow_sha: commit,
    runner_environment: 'self-hosted',
  })
  assert.ok(typeof jti === 'string' && jti.length > 20)
  assert.ok(iat >= before && exp === iat + 300 && nbf === iat - 60)
  assert.equal(decodeProtectedHeader(body.value).typ, 'JWT')
  const { body: another } = await requestToken(run)
  assert.equal((await verified(another.value, service.url)).aud, service.url)
  await assert.rejects(verified(another.value, 'sts.example.com'), /"aud"/)
  const [head, claimsPart, signature] = another.value.split('.')
  const forged = Buffer.from(JSON.stringify({ ...claims, sub: 'repo:other:ref:x' }))
  await assert.rejects(
    verified(`${head}.${forged.toString('base64url')}.${signature}`, service.url),
    /signature/,
  )
  assert.notEqual(claimsPart, undefined)
  await run.report(...wholeRun())
})

test('the audit log has each ID token that was issued, and none that was refused', async () => {
  const { run, number } = await start(service.admin, { name: 'audited' })
  const { body: repository } = await service.admin.get('/repos/audited')
  const { body: before } = await service.admin.get('/audit?limit=1')
  assert.equal((await requestToken(run, 'sts.example.com')).status, 200)
  assert.equal((await requestToken(run)).status, 200)
  assert.equal((await requestToken(run, '')).status, 400)
  await run.report(...wholeRun())
  assert.equal((await requestToken(run)).status, 401)
  const { body: entries } = await service.admin.get(
    '/audit?action=id_token.issued&repository=audited',
  )
  const data = {
    runId: run.plan.runId,
    attempt: 1,
    file,
    subject: `repo:admin/audited@${repository.id}:ref:refs/heads/main`,
  }
  assert.deepEqual(
    entries.map((entry: { data: object }) => entry.data),
    [
      { ...data, audience: null },
      { ...data, audience: 'sts.example.com' },
    ],
  )
  const [{ actor, via, address, seq }] = entries
  assert.deepEqual(actor, { id: run.plan.runId, username: `run-${number}[bot]` })
  assert.deepEqual([via, address], ['api', '127.0.0.1'])
  assert.ok(seq > before[0].seq)
})

test('the discovery document and the keys are public and may be cached', async () => {
  for (const path of ['openid-configuration', 'jwks']) {
    const response = await fetch(`${service.url}/.well-known/${path}`)
    assert.equal(response.status, 200)
    assert.equal(response.headers.get('cache-control'), 'public, max-age=300')
    assert.match(response.headers.get('content-type') ?? '', /^application\/json/)
    assert.doesNotMatch(await response.text(), /"d":|"p":|"q":|PRIVATE/)
  }
})

test('a job that does not ask for ID tokens gets none', async () => {
  const { run } = await start(service.admin)
  const [withRight, without] = run.plan.identities
  assert.ok(withRight?.idTokens)
  assert.deepEqual([without?.permissions.idToken, without?.idTokens], [false, null])
  const path = `${run.path}/id-token`
  // Neither the token of a job, nor that of the run, nor one of a user is accepted.
  for (const token of [without?.token, withRight.token, run.own.token, service.adminToken]) {
    const refused = await createClient(service.url, token ?? '').get(path)
    assert.ok(refused.status === 403 || refused.status === 404, refused.text)
    assert.doesNotMatch(refused.text, /eyJ/)
  }
  // And the token for ID tokens is accepted nowhere else.
  const requester = createClient(service.url, withRight.idTokens.token)
  assert.equal((await requester.get(path)).status, 200)
  for (const other of ['/repos', '/repos/site', '/tokens/delegated', '/repos/site/workflows'])
    assert.equal((await requester.get(other)).status, 403, other)
  for (const [method, verb, body] of [
    ['GET', 'source'],
    ['GET', 'orders'],
    ['POST', 'report', { first: 0, entries: wholeRun() }],
    ['POST', 'release', { reason: 'x', isLoss: true }],
  ] as const)
    assert.equal((await requester.call(method, `${run.path}/${verb}`, body)).status, 404, verb)
  await run.report(...wholeRun())
})

test('a job gets ID tokens of its own run alone, and none after it', async () => {
  const [{ run: one }, { run: other }] = [
    await start(service.admin),
    await start(service.admin, { branch: 'topic' }),
  ]
  const token = one.plan.identities[0]?.idTokens?.token ?? ''
  const client = createClient(service.url, token)
  const refused = await client.get(`${other.path}/id-token`)
  assert.deepEqual([refused.status, refused.body.code], [404, 'run_not_found'])
  const { body } = await requestToken(other, 'x')
  const { sub, repository_id: id } = await verified(body.value, 'x')
  assert.equal(sub, `repo:ada/site@${id}:ref:refs/heads/topic`)
  await one.report(...wholeRun())
  assert.equal((await requestToken(one)).status, 401)
  await service.admin.delete('/repos/site')
  assert.equal((await requestToken(other)).status, 401)
})

test('an audience is of a bounded length', async () => {
  const { run } = await start(service.admin, { name: 'bounds' })
  for (const audience of ['', 'x'.repeat(1001)])
    assert.equal((await requestToken(run, audience)).status, 400)
  const odd = 'https://e.test/?a=b&c="\n☃'
  const { body } = await requestToken(run, odd)
  assert.equal((await verified(body.value, odd)).aud, odd)
  await run.report(...wholeRun())
})

test('the name of a workflow that the database cannot store does not stop a run', async () => {
  const text = deploying.replace('name: Deploy', 'name: "a\\0b"')
  const { run } = await start(service.admin, { name: 'nul', text })
  const { body } = await requestToken(run, 'x')
  assert.equal((await verified(body.value, 'x')).workflow, 'a\ufffdb')
  await run.report(...wholeRun())
})

test('without an encryption key there are no ID tokens, and the error says so', async () => {
  await using folder = await temporaryFolder()
  const dataDir = join(folder.path, 'data')
  let SVC_ADMIN_TOKEN = ''
  {
    await using server = await startService({ dataDir })
    SVC_ADMIN_TOKEN = server.adminToken
    await pushFiles(server.admin, 'site', { [file]: deploying })
    await server.end('SIGTERM')
  }
  await rename(join(dataDir, 'encryption.key'), join(folder.path, 'key'))
  await using server = await startService({ dataDir, env: { SVC_ADMIN_TOKEN } })
  await server.admin.post('/repos/site/workflows', {})
  const refused = await requestToken(await mustClaim(server.admin))
  assert.deepEqual([refused.status, refused.body.code], [503, 'encryption_key_missing'])
  assert.deepEqual(await (await fetch(`${server.url}/.well-known/jwks`)).json(), { keys: [] })
})
