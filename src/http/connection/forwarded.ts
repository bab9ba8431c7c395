import type { IncomingMessage } from 'node:http'
import { BlockList, isIP, isIPv6, type Socket } from 'node:net'
import ipaddr from 'ipaddr.js'

/** What trusted proxies say of a request. The headers of all other clients are ignored. */
export type Forwarded = {
  /** Whether the peer of a connection is a trusted proxy. */
  isProxy: (socket: Socket) => boolean
  /**
   * Finds the client's address: the peer of the connection or, behind trusted proxies, the last address in
   * `X-Forwarded-For` that is not a proxy. Each proxy appends the address of its peer; earlier entries are forgeable.
   */
  addressOf: (request: IncomingMessage) => string
  /**
   * Finds the origin that the client called: the scheme of `X-Forwarded-Proto` with the `Host` header. Undefined if no
   * trusted proxy sends both.
   */
  originOf: (request: IncomingMessage) => string | undefined
}

export function createForwarded(trustedProxies: readonly string[] = []): Forwarded {
  const trusted = new BlockList()
  for (const range of trustedProxies) {
    const [address = '', bits] = range.split('/')
    trusted.addSubnet(address, Number(bits), familyOf(address))
  }
  const isTrusted = (address: string) =>
    trustedProxies.length > 0 && trusted.check(address, familyOf(address))

  /** Walks from the peer towards the client; `proxies` is the number of proxies that were passed. */
  function findClient({ socket, headers }: IncomingMessage): { address: string; proxies: number } {
    let address = peerOf(socket)
    let proxies = 0
    const forwarded = trustedProxies.length > 0 ? headers['x-forwarded-for'] : undefined
    if (forwarded === undefined) return { address, proxies }
    // Node joins repeated headers into one.
    for (const entry of String(forwarded).split(',').reverse()) {
      if (!isTrusted(address)) break
      const before = withoutPort(entry.trim())
      if (isIP(before) === 0) break
      address = canonicalAddress(before)
      proxies++
    }
    return { address, proxies }
  }

  return {
    isProxy: (socket) => isTrusted(peerOf(socket)),

    addressOf: (request) => findClient(request).address,

    originOf(request) {
      const { socket, headers } = request
      const forwarded = headers['x-forwarded-proto']
      if (forwarded === undefined || !isTrusted(peerOf(socket))) return undefined
      const schemes = String(forwarded).split(',')
      // Most proxies replace the header. Where each appends to it, the client's entries are before those of the proxies.
      const index = schemes.length === 1 ? 0 : -Math.max(1, findClient(request).proxies)
      return toOrigin(schemes.at(index)?.trim().toLowerCase(), headers.host ?? '')
    },
  }
}

const hostMaxLength = 255 + ':65535'.length

function toOrigin(scheme: string | undefined, host: string): string | undefined {
  if (scheme !== 'http' && scheme !== 'https') return undefined
  const isHost = /^(?:[\w.-]+|\[[\da-f:.]+\])(?::\d+)?$/i.test(host) && host.length <= hostMaxLength
  return isHost ? URL.parse(`${scheme}://${host}`)?.origin : undefined
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIPv6(address) ? 'ipv6' : 'ipv4'
}

/** The address of the peer of a connection. */
export function peerOf({ remoteAddress = '' }: Pick<Socket, 'remoteAddress'>): string {
  return plain(remoteAddress)
}

/** Removes the IPv4-mapped prefix and the zone of a link-local address. */
function plain(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '').replace(/%.*$/s, '')
}

/** The one spelling of an address: invalid tokens are counted by it, and audit entries found. */
export function canonicalAddress(address: string): string {
  return plain(ipaddr.process(address).toString())
}

// Some proxies add the port: 192.0.2.1:4711, [2001:db8::1]:4711.
function withoutPort(entry: string): string {
  const [, bracketed, bare] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d+)?$/.exec(entry) ?? []
  return bracketed ?? bare ?? entry
}
