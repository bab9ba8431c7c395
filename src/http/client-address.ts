import type { IncomingMessage } from 'node:http'
import { BlockList, isIP, isIPv6 } from 'node:net'

export type ClientAddress = (request: IncomingMessage) => string

/**
 * Where requests come from: the peer of the connection, or what trusted proxies say of it in `X-Forwarded-For`.
 * Each proxy appends the address that it got the request from, so the client is the last one that is not a proxy;
 * what is before it was written by the client.
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
    // Several headers of this name are joined to one by Node.
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

/** An address without what is local to this machine: the IPv4-mapped prefix, and the zone of a link-local address. */
function plain(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '').replace(/%.*$/s, '')
}

// Some proxies add the port: 192.0.2.1:4711, [2001:db8::1]:4711.
function withoutPort(entry: string): string {
  const [, bracketed, bare] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d+)?$/.exec(entry) ?? []
  return bracketed ?? bare ?? entry
}
