import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { after, before, beforeEach, test } from 'node:test'
import { Problem, type ProblemCode } from '#base/problem.ts'
import { providerAt, startTestIssuer, type TestIssuer } from '../../../test/support/test-issuer.ts'

let issuer: TestIssuer

// A new one has read nothing yet.
const newProvider = () => providerAt(issuer.url)

before(async () => {
  issuer = await startTestIssuer()
})

beforeEach(() => issuer.reset())

after(() => issuer[Symbol.asyncDispose]())

const attempt = { state: 'the-state', nonce: 'the-nonce', codeVerifier: 'v'.repeat(43) }
const redirectUri = 'https://svc.example/-/login/callback'
const ada = { sub: '1', preferred_username: 'ada', name: 'Ada', email: 'ada@example.com' }

/** Logs a person in; `edit` changes the address with which the browser comes back. */
async function logIn({
  claims = ada,
  secrets = attempt,
  edit = (_: URL) => {},
  isFresh = false,
} = {}) {
  const provider = newProvider()
  const address = await provider.addressOf(attempt, { redirectUri, isFresh })
  const callback = issuer.authorize(address, claims)
  edit(callback)
  return provider.complete(callback, secrets, { isFresh })
}

async function assertRefused(login: Promise<unknown>, code: ProblemCode = 'provider_unavailable') {
  await assert.rejects(login, (error) => {
    assert.ok(error instanceof Problem, String(error))
    // Nothing of the cause: it would help an attacker.
    assert.doesNotMatch(error.message, /nonce|audience|signature|kid|alg|127\.0\.0\.1/)
    return error.code === code
  })
}

test('a person is read from the ID token and UserInfo', async () => {
  const claims = { ...ada, groups: ['staff', 'staff', '', 7, 'a\u0000b'], email_verified: true }
  const { person, refreshToken } = await logIn({ claims })
  const { sub: subject, preferred_username: username, name: displayName, email } = ada
  assert.deepEqual(person, { subject, username, displayName, email, groups: ['staff'] })
  assert.ok(refreshToken)
  const provider = newProvider()
  assert.equal((await provider.recheck({ subject, refreshToken }))?.person.username, 'ada')
  // The provider gave another one instead.
  assert.equal(await provider.recheck({ subject, refreshToken }), undefined)
  const unverified = { ...ada, email_verified: false }
  assert.equal((await logIn({ claims: unverified })).person.email, '')
})

test('the address of the login has PKCE, and goes to the issuer alone', async () => {
  issuer.change.metadata = { scopes_supported: ['openid', 'offline_access'] }
  const { origin, searchParams } = new URL(
    await newProvider().addressOf(attempt, { redirectUri, isFresh: true }),
  )
  assert.equal(origin, issuer.url)
  assert.deepEqual(Object.fromEntries(searchParams), {
    ...{ response_type: 'code', client_id: 'svc', redirect_uri: redirectUri, max_age: '0' },
    scope: 'openid profile email offline_access',
    ...{ state: attempt.state, nonce: attempt.nonce, code_challenge_method: 'S256' },
    // RFC 7636, section 4.2, of the verifier.
    code_challenge: searchParams.get('code_challenge'),
  })
  assert.match(searchParams.get('code_challenge') ?? '', /^[\w-]{43}$/)
  issuer.change.metadata = { authorization_endpoint: 'javascript:alert(1)' }
  await assertRefused(newProvider().addressOf(attempt, { redirectUri, isFresh: false }))
  assert.equal(
    await newProvider().logoutAddress('https://svc.example/-/login'),
    `${issuer.url}/logout?post_logout_redirect_uri=https%3A%2F%2Fsvc.example%2F-%2Flogin&client_id=svc`,
  )
  issuer.change.metadata = { end_session_endpoint: 'javascript:alert(1)' }
  await assert.rejects(newProvider().logoutAddress('https://svc.example/-/login'))
  issuer.change.metadata = { end_session_endpoint: undefined }
  assert.equal(await newProvider().logoutAddress('https://svc.example/-/login'), undefined)
})

test('an ID token that is not signed by a key of the issuer is refused', async () => {
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')
  const unsigned = (header: object, claims: object) => `${encode(header)}.${encode(claims)}`
  issuer.change.sign = (claims) => `${unsigned({ alg: 'none' }, claims)}.`
  await assertRefused(logIn())
  // The public key as a shared secret: RFC 8725, section 2.1.
  issuer.change.sign = (claims) => {
    const input = unsigned({ alg: 'HS256', kid: issuer.publicKey().kid }, claims)
    const key = JSON.stringify(issuer.publicKey())
    return `${input}.${createHmac('sha256', key).update(input).digest('base64url')}`
  }
  await assertRefused(logIn())
  issuer.change.metadata = { id_token_signing_alg_values_supported: ['none', 'HS256', 'RS256'] }
  await assertRefused(logIn())
  issuer.change.sign = (claims) => `${unsigned({ alg: 'none' }, claims)}.`
  await assertRefused(logIn())
  issuer.change.sign = issuer.signWith({ kid: 'unknown' })
  await assertRefused(logIn())
  const former = issuer.signWith({})
  await issuer.rotate()
  issuer.change.sign = former
  await assertRefused(logIn())
  issuer.reset()
  // With the new key at once.
  assert.equal((await logIn()).person.subject, '1')
})

test('an ID token for another client, issuer, login or time is refused', async () => {
  const now = Math.floor(Date.now() / 1000)
  for (const wrong of [
    { aud: 'another client' },
    { aud: ['svc', 'another client'] },
    { iss: 'http://127.0.0.1:1' },
    { nonce: 'another' },
    { nonce: undefined },
    { exp: now - 3600 },
    { iat: undefined },
    { sub: '2' },
    { sub: '' },
  ]) {
    issuer.change.claims = (claims) => ({ ...claims, ...wrong })
    await assertRefused(logIn())
  }
})

test('a callback is of one login: state, issuer, code and verifier', async () => {
  const withParameter = (name: string, value: string) => (url: URL) =>
    url.searchParams.set(name, value)
  await assertRefused(logIn({ edit: withParameter('state', 'another') }))
  await assertRefused(logIn({ edit: withParameter('iss', 'https://evil.example') }))
  await assertRefused(logIn({ edit: (url) => url.searchParams.delete('iss') }))
  const stolen = { ...attempt, codeVerifier: 'w'.repeat(43) }
  await assertRefused(logIn({ secrets: stolen }), 'login_refused')
  const provider = newProvider()
  const address = await provider.addressOf(attempt, { redirectUri, isFresh: false })
  const callback = issuer.authorize(address, ada)
  await provider.complete(callback, attempt, { isFresh: false })
  await assertRefused(provider.complete(callback, attempt, { isFresh: false }), 'login_refused')
  const denied = (url: URL) => {
    url.searchParams.delete('code')
    url.searchParams.set('error', 'access_denied')
    url.searchParams.set('error_description', '<script>alert(1)</script>')
  }
  await assertRefused(logIn({ edit: denied }), 'login_refused')
  const misconfigured = (url: URL) => {
    denied(url)
    url.searchParams.set('error', 'invalid_scope')
  }
  await assert.rejects(logIn({ edit: misconfigured }), {
    code: 'provider_unavailable',
    message: /with the error "invalid_scope: <script>alert\(1\)<\/script>"/,
  })
})

test('a confirmation is refused if the person logged in long before', async () => {
  assert.equal((await logIn({ isFresh: true })).person.subject, '1')
  issuer.change.claims = (claims) => ({ ...claims, auth_time: Number(claims.iat) - 3600 })
  await assertRefused(logIn({ isFresh: true }), 'login_refused')
  assert.equal((await logIn()).person.subject, '1')
})

test('a provider that is slow, huge, redirecting or another one is unavailable', async () => {
  const discovery = '/.well-known/openid-configuration'
  const impatient = providerAt(issuer.url, 100)
  const begin = (from = newProvider()) => from.addressOf(attempt, { redirectUri, isFresh: false })
  issuer.change.handlers = { [discovery]: () => {} }
  await assertRefused(begin(impatient))
  issuer.change.handlers = {
    [discovery]: (response) => response.writeHead(302, { location: `${issuer.url}/jwks` }).end(),
  }
  await assertRefused(begin())
  issuer.change.handlers = { [discovery]: (response) => response.writeHead(200).end('<html>') }
  await assertRefused(begin())
  issuer.change.handlers = { [discovery]: (response) => response.writeHead(404).end() }
  await assert.rejects(begin(), ({ cause }) => {
    assert.match(cause.message, /check SVC_OIDC_ISSUER: \S+openid-configuration responds with 404/)
    return true
  })
  issuer.reset()
  issuer.change.metadata = { issuer: 'https://another.example' }
  await assertRefused(begin())
  issuer.change.metadata = {}
  issuer.change.handlers = {
    '/jwks': (response) =>
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ keys: [issuer.publicKey()], x: 'x'.repeat(10 * 1024 * 1024) })),
  }
  await assertRefused(logIn())
  issuer.change.handlers = {}
  // Other hosts than the issuer are checked as those that users name.
  issuer.change.metadata = { jwks_uri: 'https://169.254.169.254/jwks' }
  await assertRefused(logIn())
  issuer.change.metadata = { token_endpoint: `http://localhost:${new URL(issuer.url).port}/token` }
  await assertRefused(logIn())
})

test('a discovery document is read once for many visits', async () => {
  const provider = newProvider()
  const begin = () => provider.addressOf(attempt, { redirectUri, isFresh: false })
  await Promise.all([begin(), begin()])
  issuer.change.handlers = {
    '/.well-known/openid-configuration': (response) => response.writeHead(503).end(),
  }
  await begin()
  await assertRefused(newProvider().addressOf(attempt, { redirectUri, isFresh: false }))
})
