import { toHost } from '../outbound/host.ts'

/** Where deliveries go, and the host and port that they share the limits of with others. */
export type WebhookAddress = { host: string; receiver: string }

/** The longest address, in characters. */
export const addressMaxLength = 2000

export const addressForm =
  `an absolute http or https address of at most ${addressMaxLength} characters, without user, password ` +
  'and fragment'

const defaultPorts: Record<string, string> = { 'http:': '80', 'https:': '443' }

/**
 * Reads the address of a webhook more strictly than URLs are read, so that what is kept as it was given means the
 * same to everybody. Why one is not accepted is told as the end of a sentence.
 */
export function readWebhookAddress(text: string): WebhookAddress | { fault: string } {
  const unreadable = { fault: `is not accepted; it takes ${addressForm}.` }
  // Blanks, control characters and backslashes are dropped or turned into something else by some that read it.
  const isPlain = text.isWellFormed() && !/[\s\p{Cc}\p{Cf}\\]/u.test(text)
  const [, authority] = /^https?:\/\/([^/?#]+)/i.exec(text) ?? []
  if (text.length > addressMaxLength || !isPlain || authority === undefined) return unreadable
  if (authority.includes('@')) {
    return { fault: 'has a user or password; deliveries are signed instead: give a `secret`.' }
  }
  if (text.includes('#')) return { fault: 'has a fragment, which is never sent; leave it out.' }
  const url = URL.parse(text)
  const host = url && toHost(url.hostname)
  if (!url || !host || url.port === '0') return unreadable
  const name = host.kind === 'name' ? host.name : host.address
  const port = url.port || defaultPorts[url.protocol]
  return { host: url.hostname, receiver: `${name.includes(':') ? `[${name}]` : name}:${port}` }
}
