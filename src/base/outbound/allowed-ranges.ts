import { isIPv6 } from 'node:net'
import ipaddr from 'ipaddr.js'
import { classOf } from './address-class.ts'
import { isEmbedding } from './embedded-addresses.ts'
import { toHost } from './host.ts'

const words = ['external', 'private', 'loopback'] as const
type Word = (typeof words)[number]

/** Allowed destinations: classes of addresses, CIDRs, and host names. */
export type Allowed = {
  classes: readonly Word[]
  ranges: readonly string[]
  names: readonly string[]
}

type Entry = { word: Word } | { range: string } | { name: string }

export const allowedForm =
  'hosts, IP addresses, CIDRs and the words external, private and loopback, separated by commas; or none'

/** Parses a list of allowed destinations; undefined if an entry is invalid. */
export function parseAllowed(text: string): Allowed | undefined {
  const entries = parseEntries(text)
  if (entries.some((entry) => typeof entry === 'string')) return undefined
  return {
    classes: entries.flatMap((entry) => (isObject(entry) && 'word' in entry ? [entry.word] : [])),
    ranges: entries.flatMap((entry) => (isObject(entry) && 'range' in entry ? [entry.range] : [])),
    names: entries.flatMap((entry) => (isObject(entry) && 'name' in entry ? [entry.name] : [])),
  }
}

/** Describes the first invalid entry, as the beginning of a sentence. */
export function allowedFault(text: string): string | undefined {
  return parseEntries(text).find((entry) => typeof entry === 'string')
}

/** The default: the public internet, and this machine unless the service is reachable from outside. */
export function defaultAllowed(listening: {
  host: string
  sshHost: string
  sshPort: number | 'off'
  /** The public address; another host than this machine means that a proxy exposes the service. */
  baseUrl: string | undefined
}): Allowed {
  const { host, sshHost, sshPort, baseUrl } = listening
  const hosts = sshPort === 'off' ? [host] : [host, sshHost]
  if (baseUrl !== undefined) hosts.push(new URL(baseUrl).hostname)
  return {
    classes: hosts.every(isLoopback) ? ['external', 'loopback'] : ['external'],
    ranges: [],
    names: [],
  }
}

/** The same, and a host that an administrator has named. */
export function withHost(allowed: Allowed, text: string): Allowed {
  const host = toHost(text)
  if (host?.kind === 'name') return { ...allowed, names: [...allowed.names, host.name] }
  if (host === undefined) return allowed
  const bits = isIPv6(host.address) ? 128 : 32
  return { ...allowed, ranges: [...allowed.ranges, `${host.address}/${bits}`] }
}

function isLoopback(text: string): boolean {
  const host = toHost(text)
  if (host?.kind !== 'address') return host?.name === 'localhost'
  return classOf(ipaddr.process(host.address)) === 'loopback'
}

function isObject(entry: Entry | string): entry is Entry {
  return typeof entry === 'object'
}

function parseEntries(text: string): (Entry | string)[] {
  const list = text.split(',').map((entry) => entry.trim())
  if (list.length === 1 && list[0]?.toLowerCase() === 'none') return []
  return list.map(parseEntry)
}

// The parsed entry, or why it is invalid.
function parseEntry(text: string): Entry | string {
  const shown = JSON.stringify(text)
  const word = words.find((one) => one === text.toLowerCase())
  if (word) return { word }
  if (text === '') return 'an entry of its list is empty'
  if (text.toLowerCase() === 'none') return '"none" stands beside other entries'
  if (text.includes('*')) return `${shown} has a wildcard, and names are compared as a whole`
  if (text.includes('://')) return `${shown} is more than a host`
  if (text.includes('/')) return parseRange(text)
  const host = toHost(text)
  if (host?.kind === 'name') return { name: host.name }
  if (host) return parseAddress(text, host.address)
  if (/^[^:]+:\d+$|\]:\d+$/.test(text))
    return `${shown} has a port, and a host is allowed as a whole`
  return `${shown} is no host, address or CIDR`
}

function parseAddress(text: string, address: string): Entry | string {
  const ip = ipaddr.parse(address)
  // 010.0.0.1 is octal, which is probably not what was meant.
  const isPlain = ip.kind() === 'ipv6' || text === address
  if (!isPlain) return `${JSON.stringify(text)} is an unusual way to write ${address}`
  return toRange([ip, ip.toByteArray().length * 8], text)
}

function parseRange(text: string): Entry | string {
  const shown = JSON.stringify(text)
  const [, first = '', prefix = ''] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? []
  const isPlain = ipaddr.IPv4.isValidFourPartDecimal(first)
  if (prefix === '' || !(isPlain || (first.includes(':') && toHost(first)))) {
    return `${shown} is no CIDR`
  }
  const ip = ipaddr.parse(first)
  const [bits, maxPrefix] = [Number(prefix), isPlain ? 32 : 128]
  if (bits > maxPrefix) return `${shown} has a prefix longer than ${maxPrefix} bits`
  const network = (isPlain ? ipaddr.IPv4 : ipaddr.IPv6).networkAddressFromCIDR(text)
  if (network.toString() !== ip.toString()) {
    return `${shown} names a single address of the range ${network}/${bits}`
  }
  return toRange([ip, bits], text)
}

function toRange([ip, bits]: [ipaddr.IPv4 | ipaddr.IPv6, number], text: string): Entry | string {
  return isEmbedding([ip, bits])
    ? `${JSON.stringify(text)} only stands for IPv4 addresses, and those are what is to be named`
    : { range: `${ip}/${bits}` }
}
