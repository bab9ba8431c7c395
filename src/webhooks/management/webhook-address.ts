import { toHost } from '#base/outbound/host.ts'

/** The host of a webhook's URL, and its receiver: the host and port by which limits are shared. */
export type WebhookAddress = { host: string; receiver: string }

/** In characters. */
export const addressMaxLength = 2000

export const addressForm =
  `an absolute http or https URL of at most ${addressMaxLength} characters, without user, password ` +
  'and fragment'

const defaultPorts: Record<string, string> = { 'http:': '80', 'https:': '443' }

/**
 * Parses the URL of a webhook more strictly than `URL` does, so that the stored text means the same to every parser.
 * A fault is the end of a sentence.
 */
export function readWebhookAddress(text: string): WebhookAddress | { fault: string } {
  const unreadable = { fault: `must be ${addressForm}.` }
  // Some parsers drop or replace blanks, control characters and backslashes.
  const isPlain = text.isWellFormed() && !/[\s\p{Cc}\p{Cf}\\]/u.test(text)
  const [, authority] = /^https?:\/\/([^/?#]+)/i.exec(text) ?? []
  if (text.length > addressMaxLength || !isPlain || authority === undefined) return unreadable
  if (authority.includes('@')) {
    return { fault: 'has a user or password; use a `secret` to sign deliveries instead.' }
  }
  if (text.includes('#')) return { fault: 'has a fragment, which is never sent; omit it.' }
  const url = URL.parse(text)
  const host = url && toHost(url.hostname)
  if (!url || !host || url.port === '0') return unreadable
  const name = host.kind === 'name' ? host.name : host.address
  const port = url.port || defaultPorts[url.protocol]
  return { host: url.hostname, receiver: `${name.includes(':') ? `[${name}]` : name}:${port}` }
}
