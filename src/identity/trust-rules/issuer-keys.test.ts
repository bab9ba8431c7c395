import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createOutbound } from '#base/outbound/outbound.ts'
import { Problem } from '#base/problem.ts'
import { newKey, startIssuer } from '../../../test/support/issuer.ts'
import { createIssuerKeys } from './issuer-keys.ts'

const log = { debug() {}, info() {}, warn() {}, error() {} }

function createKeys(limits = {}) {
  const outbound = createOutbound({
    allow: { classes: ['loopback'], ranges: [], names: [] },
    lookup: () => assert.fail('nothing is looked up'),
  })
  const usual = { maxAgeMs: 60_000, retryMs: 0, timeoutMs: 30_000 }
  const keys = createIssuerKeys({ outbound, log, limits: { ...usual, ...limits } })
  return {
    read: (issuer: string, keyId?: string, ...usernames: string[]) =>
      keys.read({ issuer, keyId, usernames: usernames.length > 0 ? usernames : ['ada'] }),
  }
}

function isUnavailable(error: unknown): boolean {
  return error instanceof Problem && error.code === 'issuer_unavailable'
}

test('keys are read again for one that is missing, but not at once again', async () => {
  await using issuer = await startIssuer()
  const keys = createKeys()
  const { kid } = issuer.key
  assert.equal((await keys.read(issuer.url, kid)).keys.length, 1)
  await keys.read(issuer.url, kid)
  await keys.read(issuer.url, undefined)
  // The discovery document, and the keys.
  assert.equal(issuer.requests(), 2)
  const next = await newKey()
  issuer.publish([issuer.key.publicJwk, next.publicJwk])
  const read = () => keys.read(issuer.url, next.kid)
  const both = await Promise.all([read(), read()])
  assert.deepEqual(
    both.map((set) => set.keys.length),
    [2, 2],
  )
  assert.equal(issuer.requests(), 4)

  const patient = createKeys({ retryMs: 60_000 })
  await patient.read(issuer.url, kid)
  await patient.read(issuer.url, 'unknown')
  assert.equal(issuer.requests(), 6)
  issuer.answer((_, response) => response.writeHead(503).end())
  const failing = createKeys({ retryMs: 60_000 })
  await assert.rejects(failing.read(issuer.url, kid), isUnavailable)
  await assert.rejects(failing.read(issuer.url, kid), isUnavailable)
  assert.equal(issuer.requests(), 7)
})

test('keys that cannot be read again count on, if they are not too old', async () => {
  await using issuer = await startIssuer()
  const { url, key } = issuer
  const [keys, strict] = [
    createKeys({ maxAgeMs: 0 }),
    createKeys({ maxAgeMs: 0, maxAgeOfFailedMs: 0 }),
  ]
  await keys.read(url, key.kid)
  await assert.rejects(strict.read(url, key.kid), isUnavailable)
  issuer.answer((_, response) => response.writeHead(503).end())
  for (const kid of [key.kid, key.kid, undefined])
    assert.equal((await keys.read(url, kid)).keys.length, 1)
  assert.equal(issuer.requests(), 7)
  await assert.rejects(keys.read(url, 'other'), isUnavailable)
})

test('the issuers of one user do not take the place of the others', async () => {
  await using good = await startIssuer()
  await using other = await startIssuer()
  await using third = await startIssuer()
  const keys = createKeys({ maxIssuers: 2, maxLoads: 2, maxLoadsPerUser: 1 })
  await keys.read(good.url)
  for (const { url } of [other, third, other]) await keys.read(url, undefined, 'eve', 'ada')
  await keys.read(third.url, undefined, 'eve')
  await keys.read(good.url)
  assert.deepEqual([good.requests(), other.requests()], [2, 4])

  const { promise: hangs, resolve } = Promise.withResolvers<void>()
  other.answer((_, response) => void hangs.then(() => response.end('{}')))
  const hanging = keys.read(other.url, 'new', 'eve')
  good.answer((_, response) => response.writeHead(503).end())
  await assert.rejects(keys.read(third.url, 'new', 'eve'), isUnavailable)
  assert.equal((await keys.read(third.url, third.key.kid, 'eve')).keys.length, 1)
  // That issuer counts for another user, too.
  assert.equal((await keys.read(third.url, 'new', 'eve', 'ada')).keys.length, 1)
  resolve()
  await assert.rejects(hanging, isUnavailable)
})

test('an issuer that does not answer as it should has no keys', async () => {
  await using issuer = await startIssuer()
  const { url } = issuer
  const document = (given: object) => JSON.stringify({ issuer: url, jwks_uri: url, ...given })
  for (const body of [
    'no JSON',
    'null',
    document({ issuer: `${url}/` }),
    document({ jwks_uri: undefined }),
    document({ jwks_uri: 'http://example.com/keys' }),
    document({ jwks_uri: 'https://10.0.0.1/keys' }),
    document({ jwks_uri: 'file:///etc/passwd' }),
    // As a key set, it has no list.
    document({}),
    document({ keys: Array.from({ length: 101 }, () => issuer.key.publicJwk) }),
    document({ keys: [issuer.key.publicJwk], padding: 'x'.repeat(10 * 1024 * 1024) }),
  ]) {
    issuer.answer((_, response) => response.on('error', () => {}).end(body))
    await assert.rejects(createKeys().read(url, undefined), isUnavailable, body.slice(0, 100))
  }
  issuer.answer(({ url: path }, response) => {
    if (path === '/there') response.end(document({ keys: [issuer.key.publicJwk] }))
    else response.writeHead(302, { location: '/there' }).end()
  })
  await assert.rejects(createKeys().read(url, undefined), isUnavailable)
  issuer.answer((_, response) => response.writeHead(200).write('{'))
  await assert.rejects(createKeys({ timeoutMs: 50 }).read(url, undefined), isUnavailable)
  await assert.rejects(createKeys().read('http://10.0.0.1', undefined), isUnavailable)
})
