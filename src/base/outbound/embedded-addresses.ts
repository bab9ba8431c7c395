import ipaddr from 'ipaddr.js'
import { type Ip, type IpRange, isIn } from './address-class.ts'

type Bytes = readonly number[]
type Embedding = { range: IpRange; read: (bytes: Bytes) => ipaddr.IPv4[] }

// IPv6 addresses that embed IPv4 ones, to which packets may be translated.
const embeddings: Embedding[] = [
  // IPv4-mapped (RFC 4291, section 2.5.5.2) and IPv4-translated (RFC 7915).
  embedding('::ffff:0:0/96', (bytes) => [at(bytes, 12)]),
  embedding('::ffff:0:0:0/96', (bytes) => [at(bytes, 12)]),
  // NAT64 (RFC 6052, section 2.1), and its prefix for a network's own use (RFC 8215).
  embedding('64:ff9b::/96', (bytes) => [at(bytes, 12)]),
  embedding('64:ff9b:1::/48', readLocalNat64),
  // 6to4 (RFC 3056, section 2).
  embedding('2002::/16', (bytes) => [at(bytes, 2)]),
  // Teredo: its server, and the client with all bits inverted (RFC 4380, section 4).
  embedding('2001::/32', (bytes) => [
    at(bytes, 4),
    at(
      bytes.map((byte) => byte ^ 0xff),
      12,
    ),
  ]),
]

const compatible: IpRange = ipaddr.parseCIDR('::/96')
const loopbackOrNone: IpRange = ipaddr.parseCIDR('::/127')

/** Returns all addresses that must be allowed to connect to an address: embedded IPv4 addresses, and usually itself. */
export function addressesIn(ip: Ip): Ip[] {
  if (ip instanceof ipaddr.IPv4) return [ip]
  const bytes = ip.toByteArray()
  // IPv4-compatible (RFC 4291, section 2.5.5.1), except :: and ::1.
  if (isIn(ip, compatible) && !isIn(ip, loopbackOrNone)) return [at(bytes, 12)]
  const embedded = embeddings.find(({ range }) => isIn(ip, range))?.read(bytes)
  return [...(embedded ?? [ip]), ...readIsatap(bytes)]
}

/** Whether all addresses of a range only represent IPv4 addresses. */
export function isEmbedding([first, bits]: IpRange): boolean {
  const isCompatible = isIn(first, compatible) && !isIn(first, loopbackOrNone)
  return isCompatible || embeddings.some(({ range }) => isIn(first, range) && bits >= range[1])
}

function embedding(range: string, read: Embedding['read']): Embedding {
  return { range: ipaddr.parseCIDR(range), read }
}

function at(bytes: Bytes, ...places: number[]): ipaddr.IPv4 {
  const [first = 0] = places
  const all = places.length > 1 ? places : [first, first + 1, first + 2, first + 3]
  return new ipaddr.IPv4(all.map((place) => bytes[place] ?? 0))
}

// Each network chooses the prefix length, and so the position of the address (RFC 6052, section 2.2; byte 8 is skipped).
// Wrong positions yield padding: 0.0.0.0/8, to which no translator sends.
function readLocalNat64(bytes: Bytes): ipaddr.IPv4[] {
  const all = [at(bytes, 6, 7, 9, 10), at(bytes, 7, 9, 10, 11), at(bytes, 9), at(bytes, 12)]
  const likely = all.filter((ip) => ip.octets[0] !== 0)
  return likely.length > 0 ? likely : all
}

// RFC 5214, section 6.1: the interface identifier of any IPv6 network, with either value of its two flags.
function readIsatap(bytes: Bytes): ipaddr.IPv4[] {
  const [flags = 0, ...mark] = bytes.slice(8, 12)
  return (flags & 0xfc) === 0 && mark.join() === '0,94,254' ? [at(bytes, 12)] : []
}
