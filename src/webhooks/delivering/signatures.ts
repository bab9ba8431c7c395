import { createHmac } from 'node:crypto'
import type { Sensitive } from '#base/sensitive.ts'

type Signed = {
  /** The valid secrets, newest first. */
  secrets: Sensitive<string>[]
  id: string
  /** Seconds since the Unix epoch. */
  timestamp: number
  body: Uint8Array
}

const prefix = 'whsec_'

/**
 * The signature headers of a body: GitHub's for the newest secret, those of Standard Webhooks for each secret. None
 * without a secret. https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries,
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md.
 */
export function signatureHeaders({ secrets, id, timestamp, body }: Signed): Record<string, string> {
  const [newest] = secrets
  if (!newest) return {}
  const signatures = secrets.map((secret) => {
    const hmac = createHmac('sha256', standardKey(secret.reveal()))
    return `v1,${hmac.update(`${id}.${timestamp}.`).update(body).digest('base64')}`
  })
  const digest = createHmac('sha256', newest.reveal()).update(body).digest('hex')
  return { 'x-hub-signature-256': `sha256=${digest}`, 'webhook-signature': signatures.join(' ') }
}

function standardKey(secret: string): Buffer {
  return secret.startsWith(prefix)
    ? Buffer.from(secret.slice(prefix.length), 'base64')
    : Buffer.from(secret)
}
