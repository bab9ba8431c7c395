import ipaddr from 'ipaddr.js'
import { toHost } from './host.ts'

/**
 * Hosts and their ports: an exact name, an IP address, every name below a domain (`*.example.com`, without the domain
 * itself), or all hosts (`*`).
 */
export type HostRule = { pattern: string; ports: readonly number[] }

/** The ports of HTTP and HTTPS, for rules that name none. */
const webPorts = [80, 443]
const maxPort = 65_535

/** Parses `host` or `host:port`. Returns the fault of an invalid rule as the beginning of a sentence. */
export function parseHostRule(text: string): HostRule | string {
  const shown = JSON.stringify(text.slice(0, 100))
  if (text === '') return 'an entry is empty'
  if (text.includes('/')) return `${shown} is more than a host`
  const authority = splitPort(text)
  if (!authority) return `${shown} has an invalid port`
  const { host, port } = authority
  const pattern = toPattern(host)
  if (pattern === undefined) {
    return host.includes('*')
      ? `${shown} has a wildcard that is not the whole first label, as in *.example.com`
      : `${shown} is no host`
  }
  return { pattern, ports: port === undefined ? webPorts : [port] }
}

/** Splits a host, in brackets if it is an IPv6 address, from its port; undefined for an invalid port. */
export function splitPort(text: string): { host: string; port: number | undefined } | undefined {
  // More colons than one, without brackets, are an IPv6 address.
  if (text.split(':').length > 2 && !text.startsWith('[')) return { host: text, port: undefined }
  const [, host = '', digits] = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/s.exec(text) ?? []
  if (host === '') return undefined
  if (digits === undefined) return { host, port: undefined }
  const port = /^\d{1,5}$/.test(digits) ? Number(digits) : 0
  return port >= 1 && port <= maxPort ? { host, port } : undefined
}

/** The spelling of a host by which rules compare: a lower-case name, or an IP address; undefined if it is invalid. */
export function toComparable(text: string): string | undefined {
  const host = toHost(text)
  if (host?.kind === 'address') return ipaddr.process(host.address).toString()
  return host?.name
}

/** Whether a rule covers a host, in the spelling of `toComparable`, and port. */
export function covers({ pattern, ports }: HostRule, host: string, port: number): boolean {
  return ports.includes(port) && contains(pattern, host)
}

/** The rules that cover what both lists cover, without duplicates. */
export function intersectRules(some: readonly HostRule[], others: readonly HostRule[]): HostRule[] {
  const byText = new Map<string, HostRule>()
  for (const one of some) {
    for (const other of others) {
      const narrow = [one, other].find(({ pattern }) =>
        [one, other].every((rule) => contains(rule.pattern, pattern)),
      )
      const ports = one.ports.filter((port) => other.ports.includes(port))
      if (!narrow || ports.length === 0) continue
      const rule = { pattern: narrow.pattern, ports }
      byText.set(formatRule(rule), rule)
    }
  }
  return [...byText.values()]
}

/** A rule as it is written in a list. */
export function formatRule({ pattern, ports }: HostRule): string {
  if (ports.length === webPorts.length) return pattern
  const host = ipaddr.IPv6.isValid(pattern) ? `[${pattern}]` : pattern
  return ports.map((port) => `${host}:${port}`).join(', ')
}

/** The address that a rule names; undefined if it names none. */
export function addressOf({ pattern }: HostRule): string | undefined {
  return ipaddr.isValid(pattern) ? pattern : undefined
}

function toPattern(host: string): string | undefined {
  if (host === '*') return host
  const isBelow = host.startsWith('*.')
  const rest = isBelow ? host.slice(2) : host
  if (rest.includes('*')) return undefined
  const comparable = toComparable(rest)
  if (comparable === undefined || (isBelow && ipaddr.isValid(comparable))) return undefined
  return isBelow ? `*.${comparable}` : comparable
}

// Of a host, or of another pattern: a pattern contains itself.
function contains(pattern: string, other: string): boolean {
  if (pattern === '*' || pattern === other) return true
  return pattern.startsWith('*.') && !ipaddr.isValid(other) && other.endsWith(pattern.slice(1))
}
