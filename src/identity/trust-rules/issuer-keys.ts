import type { JSONWebKeySet } from 'jose'
import { dayMs } from '#base/clock.ts'
import { createSingleFlight } from '#base/concurrency/single-flight.ts'
import type { Log } from '#base/log.ts'
import { isSecure } from '#base/network.ts'
import type { Outbound } from '#base/outbound/outbound.ts'
import { Problem } from '#base/problem.ts'
import { createIssuerFetch, type IssuerFetch } from '../issuer-fetch.ts'

/** The public keys of issuers of ID tokens, from their discovery documents: OpenID Connect Discovery 1.0. */
export type IssuerKeys = {
  /**
   * Returns the keys of an issuer, for the users whose trust rules name it. They are read again after ten minutes, or when
   * the key with an id is missing, but at most every few seconds. While that fails, those of before count for a day. Throws
   * `issuer_unavailable`.
   */
  read: (query: KeyQuery) => Promise<JSONWebKeySet>
}

type KeyQuery = {
  issuer: string
  keyId: string | undefined
  /** At least one. The issuer counts for the one who has the fewest, so no user takes the place of the others. */
  usernames: readonly string[]
}

type Dependencies = {
  outbound: Pick<Outbound, 'of'>
  log: Log
  limits?: Partial<typeof usualLimits>
}

type Entry = {
  /** The user for whom the issuer counts. */
  username: string
  triedAt: number
  /** Whether the last attempt failed; the keys are those of before. */
  hasFailed: boolean
  keys: { set: JSONWebKeySet; readAt: number } | undefined
}

const usualLimits = {
  maxAgeMs: 10 * 60_000,
  maxAgeOfFailedMs: dayMs,
  retryMs: 10_000,
  timeoutMs: 10_000,
  maxIssuers: 200,
  maxLoads: 50,
  maxLoadsPerUser: 10,
}
const maxKeys = 100

export function createIssuerKeys({ outbound, log, limits = {} }: Dependencies): IssuerKeys {
  const { maxAgeMs, maxAgeOfFailedMs, retryMs, timeoutMs, ...max } = { ...usualLimits, ...limits }
  // In the order of their last use.
  const entries = new Map<string, Entry>()
  const loads = new Map<string, number>()
  const share = createSingleFlight<Entry | undefined>()

  /** Reads the keys of an issuer; undefined when too many others are being read. */
  async function load({ issuer, usernames }: KeyQuery): Promise<Entry | undefined> {
    const username = lightest(loads, usernames)
    const own = loads.get(username) ?? 0
    // Others would let the server collect responses without end.
    if (own >= max.maxLoadsPerUser || sum(loads) >= max.maxLoads) {
      const known = entries.get(issuer)
      return known && { ...known, hasFailed: true }
    }
    loads.set(username, own + 1)
    try {
      const fetchFromIssuer = createIssuerFetch({ outbound: outbound.of(username), timeoutMs })
      const set = await loadKeys(issuer, fetchFromIssuer).catch((err) => {
        log.warn({ err, issuer }, 'keys of an issuer not read')
        return undefined
      })
      const now = performance.now()
      const keys = set ? { set, readAt: now } : entries.get(issuer)?.keys
      const counted = lightest(countByUser(), usernames)
      const entry = { username: counted, triedAt: now, hasFailed: set === undefined, keys }
      use(issuer, entry)
      evict()
      return entry
    } finally {
      const left = (loads.get(username) ?? 1) - 1
      if (left > 0) loads.set(username, left)
      else loads.delete(username)
    }
  }

  function use(issuer: string, entry: Entry): void {
    entries.delete(issuer)
    entries.set(issuer, entry)
  }

  function countByUser(): Map<string, number> {
    const counts = new Map<string, number>()
    for (const { username } of entries.values())
      counts.set(username, (counts.get(username) ?? 0) + 1)
    return counts
  }

  /** Removes the issuers that were not used for longest, of the users who have most. */
  function evict(): void {
    while (entries.size > max.maxIssuers) {
      const [heaviest] = [...countByUser()].reduce((one, other) =>
        other[1] > one[1] ? other : one,
      )
      const [oldest] = [...entries].find(([, { username }]) => username === heaviest) ?? []
      entries.delete(oldest ?? '')
    }
  }

  function isFresh({ triedAt, hasFailed, keys }: Entry, keyId: string | undefined): boolean {
    const ageMs = performance.now() - triedAt
    if (ageMs < retryMs) return true
    return !hasFailed && keys !== undefined && ageMs < maxAgeMs && hasKey(keys.set, keyId)
  }

  return {
    async read(query) {
      const { issuer, keyId } = query
      const known = entries.get(issuer)
      const entry = known && isFresh(known, keyId) ? known : await share(issuer, () => load(query))
      if (!entry?.keys) throw unavailable()
      const { set, readAt } = entry.keys
      const isTooOld = performance.now() - readAt >= maxAgeOfFailedMs
      // The missing key may be one that could not be read.
      if (isTooOld || (entry.hasFailed && !hasKey(set, keyId))) throw unavailable()
      if (entries.get(issuer) === entry) use(issuer, entry)
      return set
    },
  }
}

/** The one of some users who counts least. */
function lightest(counts: ReadonlyMap<string, number>, usernames: readonly string[]): string {
  const weight = (username: string) => counts.get(username) ?? 0
  return usernames.reduce((one, other) => (weight(other) < weight(one) ? other : one))
}

function sum(counts: ReadonlyMap<string, number>): number {
  return counts.values().reduce((total, count) => total + count, 0)
}

function unavailable(): Problem {
  const detail = 'The keys of the issuer of this token cannot be read. Try again in a minute.'
  return new Problem('issuer_unavailable', detail, { retryAfterSeconds: 60 })
}

function hasKey({ keys }: JSONWebKeySet, keyId: string | undefined): boolean {
  return keyId === undefined || keys.some(({ kid }) => kid === keyId)
}

async function loadKeys(issuer: string, fetchFromIssuer: IssuerFetch): Promise<JSONWebKeySet> {
  const read = async (address: string) => {
    const response = await fetchFromIssuer(address, { headers: { accept: 'application/json' } })
    if (response.status !== 200) throw new Error(`its status is ${response.status}`)
    return Object(await response.json())
  }
  const document = await read(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`)
  if (document.issuer !== issuer) throw new Error('its discovery document is of another issuer')
  const address = URL.parse(String(document.jwks_uri))
  if (!address || !isSecure(address)) throw new Error('its keys are at no https address')
  const { keys } = await read(address.href)
  if (!Array.isArray(keys) || keys.length > maxKeys) throw new Error('it has no list of keys')
  return { keys: keys.filter((key) => typeof key === 'object' && key !== null) }
}
