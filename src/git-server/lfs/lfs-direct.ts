import { lookup } from 'node:dns/promises'
import ipaddr from 'ipaddr.js'
import { type AddressClass, classOf } from '#base/outbound/address-class.ts'
import { toHost } from '#base/outbound/host.ts'
import { within } from '#base/timeouts.ts'

const lookupTimeoutMs = 2000

/** From how far an address can be reached: from the internet, from a network, or from its own machine. */
const reaches: readonly AddressClass[] = ['loopback', 'private', 'external']

/**
 * Whether a client that reaches the server at an origin probably reaches a bucket, too: one is not sent from the internet
 * to a private address, nor from https to http. Undefined when an address cannot be found.
 */
export async function isReachableFrom(
  origin: string,
  endpoint: string,
): Promise<boolean | undefined> {
  const [from, to] = [new URL(origin), new URL(endpoint)]
  if (from.protocol === 'https:' && to.protocol !== 'https:') return false
  const [reachOfServer, reachOfBucket] = await Promise.all([reachOf(from), reachOf(to)])
  if (reachOfServer === undefined || reachOfBucket === undefined) return undefined
  return reachOfBucket !== -1 && reachOfBucket >= reachOfServer
}

/** The place of a host in `reaches`; -1 for a special address, undefined when no address is found. */
async function reachOf({ hostname }: URL): Promise<number | undefined> {
  const host = toHost(hostname)
  if (!host) return undefined
  const address = host.kind === 'address' ? host.address : await addressOf(host.name)
  if (address === undefined) return undefined
  return reaches.indexOf(classOf(ipaddr.process(address)))
}

async function addressOf(name: string): Promise<string | undefined> {
  const found = await within(lookupTimeoutMs, lookup(name)).catch(() => undefined)
  return found?.address
}
