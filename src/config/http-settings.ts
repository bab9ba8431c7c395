import ipaddr from 'ipaddr.js'
import type { Setting } from './setting.ts'
import { parseBaseUrl, parseHost, wholeNumber } from './setting-values.ts'

/** Settings of the HTTP listener and the proxies in front of it. */
export const httpSettings = {
  host: {
    variable: 'SVC_HOST',
    description: 'Address on which HTTP listens.',
    accepts: 'an IP address or a host name',
    fallback: '127.0.0.1',
    parse: parseHost,
  } satisfies Setting<string>,
  port: {
    variable: 'SVC_PORT',
    description: 'Port on which HTTP listens; 0 picks a free one.',
    accepts: 'a whole number from 0 to 65535',
    fallback: '8080',
    parse: wholeNumber(0, 65_535),
  } satisfies Setting<number>,
  baseUrl: {
    variable: 'SVC_BASE_URL',
    description:
      'Public address of the service, used in clone addresses. Default: the address that a trusted proxy gives for a request, and otherwise that on which HTTP listens.',
    accepts: 'an http or https address without user, query or fragment',
    fallback: '',
    parse: parseBaseUrl,
  } satisfies Setting<string>,
  httpConnections: {
    variable: 'SVC_HTTP_CONNECTIONS',
    description:
      'Maximum number of concurrent HTTP connections of users, at most a quarter of them for one user. Of a trusted proxy, requests count instead.',
    accepts: 'a whole number from 1 to 100000',
    fallback: '4000',
    parse: wholeNumber(1, 100_000),
  } satisfies Setting<number>,
  httpUnauthenticated: {
    variable: 'SVC_HTTP_UNAUTHENTICATED',
    description:
      'Maximum number of concurrent HTTP connections without an authenticated request. Beyond it, connections of the addresses with the most of them, and connections older than a second, are closed.',
    accepts: 'a whole number from 1 to 100000',
    fallback: '1000',
    parse: wholeNumber(1, 100_000),
  } satisfies Setting<number>,
  httpUnauthenticatedPerAddress: {
    variable: 'SVC_HTTP_UNAUTHENTICATED_PER_ADDRESS',
    description:
      'Maximum number of concurrent HTTP connections of one address without an authenticated request. Idle ones are closed for further ones, which otherwise wait for up to 3 seconds.',
    accepts: 'a whole number from 1 to 100000',
    fallback: '200',
    parse: wholeNumber(1, 100_000),
  } satisfies Setting<number>,
  trustedProxies: {
    variable: 'SVC_TRUSTED_PROXIES',
    description:
      'Proxies whose X-Forwarded-For and X-Forwarded-Proto headers are trusted; they are ignored from all other clients.',
    accepts: 'IP addresses and CIDRs, separated by commas',
    fallback: '',
    parse: parseRanges,
  } satisfies Setting<readonly string[]>,
}

/** Parses addresses and CIDRs into CIDRs; undefined when one of them is invalid. */
function parseRanges(text: string): readonly string[] | undefined {
  const ranges = text.split(',').map((entry) => toRange(entry.trim()))
  const known = ranges.filter((range) => range !== undefined)
  return known.length === ranges.length ? known : undefined
}

function toRange(text: string): string | undefined {
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return `${text}/32`
  if (ipaddr.IPv6.isValid(text)) return `${text}/128`
  if (!ipaddr.IPv4.isValidCIDRFourPartDecimal(text) && !ipaddr.IPv6.isValidCIDR(text))
    return undefined
  const [address, bits] = ipaddr.parseCIDR(text)
  return `${address}/${bits}`
}
