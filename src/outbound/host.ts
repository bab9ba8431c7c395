import { isIPv6 } from 'node:net'

/** What a host text means: a name in lower case without a trailing dot, or an IP address without brackets. */
export type Host = { kind: 'name'; name: string } | { kind: 'address'; address: string }

const nameMaxLength = 253
const label = /^[a-z0-9_][a-z0-9_-]{0,62}$/

/**
 * Reads a host as browsers do (https://url.spec.whatwg.org/#host-parsing), so that one address has one
 * spelling: `127.1`, `0x7f000001`, `127。0。0。1` and `%3127.0.0.1` are all 127.0.0.1. Undefined for what is no
 * host; a zone id (`fe80::1%eth0`) names a network card of this machine, and is none either.
 */
export function toHost(text: string): Host | undefined {
  const bare = /^\[(.*)\]$/.exec(text)?.[1] ?? text
  if (bare.includes(':')) return isIPv6(bare) ? toIpv6(bare) : undefined
  // Where an address of the web would end, or which it would drop without a word.
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
