import { isIPv6 } from 'node:net'

/** A parsed host: a lower-case name without a trailing dot, or an IP address without brackets. */
export type Host = { kind: 'name'; name: string } | { kind: 'address'; address: string }

const nameMaxLength = 253
const label = /^[a-z0-9_][a-z0-9_-]{0,62}$/

/**
 * Parses a host as browsers do (https://url.spec.whatwg.org/#host-parsing), so that an address has one spelling:
 * `127.1`, `0x7f000001`, `127。0。0。1` and `%3127.0.0.1` are all 127.0.0.1. Undefined for an invalid host, including one
 * with a zone id (`fe80::1%eth0`), which names a network interface of this machine.
 */
export function toHost(text: string): Host | undefined {
  const bare = /^\[(.*)\]$/.exec(text)?.[1] ?? text
  if (bare.includes(':')) return isIPv6(bare) ? toIpv6(bare) : undefined
  // These would end the host, or be silently removed.
  if (/[\0-\x20\x7f/\\?#@]/.test(text)) return undefined
  const name = URL.parse(`http://${text}`)?.hostname.replace(/\.$/, '') ?? ''
  if (/^\d+\.\d+\.\d+\.\d+$/.test(name)) return { kind: 'address', address: name }
  const isName = name.length <= nameMaxLength && name.split('.').every((part) => label.test(part))
  return isName ? { kind: 'name', name } : undefined
}

function toIpv6(bare: string): Host | undefined {
  const address = URL.parse(`http://[${bare}]`)?.hostname.slice(1, -1)
  return address === undefined ? undefined : { kind: 'address', address }
}
