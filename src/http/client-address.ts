import type { IncomingMessage } from 'node:http'
import { BlockList, isIP, isIPv6 } from 'node:net'

export type ClientAddress = (request: IncomingMessage) => string

/**
 * Finds the client's address: the peer of the connection or, behind trusted proxies, the last address in
 * `X-Forwarded-For` that is not a proxy. Each proxy appends the address of its peer; earlier entries are forgeable.
 */
export function createClientAddress(trustedProxies: readonly string[] = []): ClientAddress {
  const trusted = new BlockList()
  for (const range of trustedProxies) {
    const [address = '', bits] = range.split('/')
    trusted.addSubnet(address, Number(bits), familyOf(address))
  }

  return ({ socket, headers }) => {
    let address = plain(socket.remoteAddress ?? '')
    const forwarded = trustedProxies.length > 0 ? headers['x-forwarded-for'] : undefined
    if (forwarded === undefined) return address
    // Node joins repeated headers into one.
    for (const entry of String(forwarded).split(',').reverse()) {
      if (!trusted.check(address, familyOf(address))) return address
      const before = withoutPort(entry.trim())
      if (isIP(before) === 0) return address
      address = plain(before)
    }
    return address
  }
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIPv6(address) ? 'ipv6' : 'ipv4'
}

/** Removes the IPv4-mapped prefix and the zone of a link-local address. */
function plain(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '').replace(/%.*$/s, '')
}

// Some proxies add the port: 192.0.2.1:4711, [2001:db8::1]:4711.
function withoutPort(entry: string): string {
  const [, bracketed, bare] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d+)?$/.exec(entry) ?? []
  return bracketed ?? bare ?? entry
}
