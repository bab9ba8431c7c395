import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Webhooks } from '@octokit/webhooks'
import { Webhook } from 'standardwebhooks'
import { Sensitive } from '#base/sensitive.ts'
import { signatureHeaders } from './signatures.ts'

const body = Buffer.from(JSON.stringify({ text: 'größer 日本 🚀 \u2028', n: 1 }))
const about = { id: '01jd0000000000000000000000', timestamp: Math.floor(Date.now() / 1000), body }
const encoded = `whsec_${Buffer.from('0123456789abcdef01234567').toString('base64')}`
const plain = 'größe: my secret'

const sign = (...secrets: string[]) =>
  signatureHeaders({ ...about, secrets: secrets.map((secret) => new Sensitive(secret)) })

const standardHeaders = (headers: Record<string, string>) => ({
  ...headers,
  'webhook-id': about.id,
  'webhook-timestamp': String(about.timestamp),
})

// Of a text the library takes the code units; ours are the bytes of UTF-8.
const standardWebhook = (secret: string) =>
  secret.startsWith('whsec_')
    ? new Webhook(secret)
    : new Webhook(Buffer.from(secret), { format: 'raw' })

/** Verifies as the libraries do that receivers use. */
async function isGood(headers: Record<string, string>, secret: string) {
  try {
    standardWebhook(secret).verify(body, standardHeaders(headers))
  } catch {
    return { standard: false, github: await verifiesAtGithub(headers, secret) }
  }
  return { standard: true, github: await verifiesAtGithub(headers, secret) }
}

const verifiesAtGithub = (headers: Record<string, string>, secret: string) =>
  new Webhooks({ secret }).verify(body.toString(), headers['x-hub-signature-256'] ?? '')

test('receivers verify a body with secrets of both forms', async () => {
  for (const secret of [encoded, plain, 'x']) {
    assert.deepEqual(await isGood(sign(secret), secret), { standard: true, github: true }, secret)
    assert.deepEqual(await isGood(sign('another'), secret), { standard: false, github: false })
  }
})

test('while a secret is replaced both verify, and GitHub has the newest', async () => {
  const headers = sign(encoded, plain)
  assert.equal(headers['webhook-signature']?.split(' ').length, 2)
  assert.deepEqual(await isGood(headers, encoded), { standard: true, github: true })
  assert.deepEqual(await isGood(headers, plain), { standard: true, github: false })
})

test('a changed body is not verified', () => {
  const headers = standardHeaders(sign(plain))
  const changed = Buffer.from(body.toString().replace('1', '2'))
  assert.throws(() => standardWebhook(plain).verify(changed, headers))
})

test('without a secret nothing is signed', () => {
  assert.deepEqual(sign(), {})
})
