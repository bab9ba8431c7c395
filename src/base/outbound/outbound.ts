import { type Agent, Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import ipaddr from 'ipaddr.js'
import type { FairLimiter } from '../concurrency/fair-limiter.ts'
import { Problem } from '../problem.ts'
import { within } from '../timeouts.ts'
import { type AddressClass, classOf, type Ip, isIn } from './address-class.ts'
import type { Allowed } from './allowed-ranges.ts'
import { addressesIn } from './embedded-addresses.ts'
import { toHost } from './host.ts'
import { createLookupLimiter, lookupTimeoutMs as usualTimeoutMs } from './name-lookups.ts'
import { pinnedLookup } from './pinned-lookup.ts'

/** Decides where the service may connect for its users: hosts that they name may be in its internal network. */
export type Outbound = {
  /**
   * Resolves a host to its addresses, in the order in which to try them. The caller must connect to these and not
   * resolve the name again, which may give others. A name with any forbidden address is forbidden. Throws `outbound_forbidden` and `outbound_unresolved`.
   */
  resolve: (text: string) => Promise<[string, ...string[]]>
  /** Creates an agent for the host of a URL, which connects only to the addresses checked now. */
  agentFor: (url: URL) => Promise<Agent>
  /** The same decisions, with lookups that count for a user or another key; otherwise they count for the service itself. */
  of: (key: string) => Outbound
}

type Dependencies = {
  allow: Allowed
  /** Returns all addresses of a name, in the order in which to try them. */
  lookup: (name: string) => Promise<{ address: string }[]>
  lookupTimeoutMs?: number
  /** The limit of concurrent lookups, which is shared with others. */
  lookups?: FairLimiter
  /** The sentence about a forbidden destination. By default it names SVC_OUTBOUND_ALLOW. */
  describe?: (forbidden: ForbiddenHost) => string
}

/** A host that may not be connected to, and why. */
export type ForbiddenHost = {
  host: string
  /** The class of its address in words: `a private address`. */
  phrase: string
  /** The entries of a list that would allow it: the word of its class, if it has one, and the host or address. */
  entries: string[]
}

const maxAddresses = 16

const phrases: Record<AddressClass, string> = {
  external: 'a public address',
  loopback: 'a loopback address',
  private: 'a private address',
  metadata: "the address of a cloud's metadata service",
  linkLocal: 'a link-local address',
  unspecified: 'an unspecified address',
  broadcast: 'the broadcast address',
  multicast: 'a multicast address',
  documentation: 'an address of documentation',
  benchmarking: 'an address for benchmarks',
  reserved: 'a reserved address',
}

export function createOutbound({
  allow,
  lookup,
  lookupTimeoutMs = usualTimeoutMs,
  lookups = createLookupLimiter(),
  describe = describeForbidden,
}: Dependencies): Outbound {
  const classes = new Set<AddressClass>(allow.classes)
  const names = new Set(allow.names)
  const ranges = allow.ranges.map((text) => ipaddr.parseCIDR(text))
  const allowsAddresses = classes.size > 0 || ranges.length > 0
  const { signal } = new AbortController()

  const isAllowed = (ip: Ip) => classes.has(classOf(ip)) || ranges.some((range) => isIn(ip, range))
  const findFault = (ip: Ip) => addressesIn(ip).find((part) => !isAllowed(part))

  async function lookUp(name: string, key: string): Promise<Ip[]> {
    const permit = await lookups.acquire([key], signal).catch((cause) => {
      throw unresolved(
        `Too many concurrent name lookups; "${name}" was not looked up. Try again later.`,
        cause,
      )
    })
    const answer = lookup(name).finally(() => permit[Symbol.dispose]())
    const found = await within(lookupTimeoutMs, answer, () => notInTime(name)).catch((error) => {
      throw error instanceof Problem ? error : toUnresolved(name, error)
    })
    // A zone id only names the network interface; the address is link-local.
    return found.map(({ address }) => ipaddr.process(address.replace(/%.*/s, '')))
  }

  async function resolve(text: string, key: string): Promise<[string, ...string[]]> {
    const host = toHost(text)
    if (!host) throw unresolved(`${JSON.stringify(text.slice(0, 100))} is no host name or address.`)
    if (host.kind === 'address') {
      const ip = ipaddr.process(host.address)
      const fault = findFault(ip)
      if (fault) throw forbidden(host.address, fault, fault.toString(), describe)
      return [ip.toString()]
    }
    const { name } = host
    const isNamed = names.has(name)
    // A query reveals the name to the name server.
    if (!isNamed && !allowsAddresses) throw forbiddenName(name)
    const found = await lookUp(name, key)
    const fault = isNamed ? undefined : found.map(findFault).find((ip) => ip !== undefined)
    if (fault) throw forbidden(name, fault, name, describe)
    const [first, ...others] = found.slice(0, maxAddresses).map(String)
    if (first === undefined) throw unresolved(`The host "${name}" has no address.`)
    return [first, ...others]
  }

  const outboundOf = (key: string): Outbound => ({
    resolve: (text) => resolve(text, key),

    async agentFor({ protocol, hostname }) {
      return pinnedAgent(protocol, await resolve(hostname, key))
    },

    of: outboundOf,
  })
  return outboundOf('')
}

function forbidden(
  host: string,
  fault: Ip,
  entry: string,
  describe: (forbidden: ForbiddenHost) => string,
): Problem {
  const addressClass = classOf(fault)
  const hasWord = ['external', 'private', 'loopback'].includes(addressClass)
  const entries = hasWord ? [addressClass, entry] : [entry]
  return new Problem(
    'outbound_forbidden',
    describe({ host, phrase: phrases[addressClass], entries }),
  )
}

// Without the address, which would reveal the internal network.
function describeForbidden({ host, phrase, entries }: ForbiddenHost): string {
  return (
    `The host "${host}" has ${phrase}, to which this server may not connect; ` +
    `its administrator can add ${entries.map((entry) => `"${entry}"`).join(' or ')} to SVC_OUTBOUND_ALLOW.`
  )
}

function forbiddenName(name: string): Problem {
  return new Problem(
    'outbound_forbidden',
    `This server may not connect to "${name}"; its administrator can add "${name}" to SVC_OUTBOUND_ALLOW.`,
  )
}

function unresolved(detail: string, cause?: unknown): Problem {
  return new Problem('outbound_unresolved', detail, { cause })
}

function notInTime(name: string): Problem {
  return unresolved(`The name servers did not respond in time for "${name}"; try again later.`)
}

function toUnresolved(name: string, error: unknown): Problem {
  const isUnknown = error instanceof Error && 'code' in error && error.code === 'ENOTFOUND'
  return isUnknown
    ? unresolved(`The host "${name}" is unknown; check its spelling.`, error)
    : unresolved(`The host "${name}" could not be looked up; try again later.`, error)
}

/** An agent that connects to one host, only at the given addresses. */
function pinnedAgent(protocol: string, addresses: [string, ...string[]]): Agent {
  const options = { keepAlive: true, lookup: pinnedLookup(addresses) }
  return protocol === 'https:' ? new HttpsAgent(options) : new HttpAgent(options)
}
