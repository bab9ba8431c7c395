import type { JSONWebKeySet } from 'jose'
import { LRUCache } from 'lru-cache'
import { createSingleFlight } from '#base/concurrency/single-flight.ts'
import type { Log } from '#base/log.ts'
import { isSecure } from '#base/network.ts'
import type { Outbound } from '#base/outbound/outbound.ts'
import { Problem } from '#base/problem.ts'
import { createIssuerFetch, type IssuerFetch } from '../issuer-fetch.ts'

/** The public keys of issuers of ID tokens, from their discovery documents: OpenID Connect Discovery 1.0. */
export type IssuerKeys = {
  /**
   * Returns the keys of an issuer. They are read again after ten minutes, or when the key with an id is missing, but at
   * most every few seconds, also when that fails. Throws `issuer_unavailable`.
   */
  read: (issuer: string, keyId: string | undefined) => Promise<JSONWebKeySet>
}

type Dependencies = {
  outbound: Pick<Outbound, 'agentFor'>
  log: Log
  limits?: { maxAgeMs: number; retryMs: number; timeoutMs: number }
}

type Entry = { readAt: number; keys: JSONWebKeySet | undefined }

const usualLimits = { maxAgeMs: 10 * 60_000, retryMs: 10_000, timeoutMs: 10_000 }
const maxIssuers = 100
const maxKeys = 100
const maxConcurrentLoads = 50

export function createIssuerKeys({
  outbound,
  log,
  limits = usualLimits,
}: Dependencies): IssuerKeys {
  const { maxAgeMs, retryMs, timeoutMs } = limits
  const entries = new LRUCache<string, Entry>({ max: maxIssuers })
  const share = createSingleFlight<Entry>()
  const fetchFromIssuer = createIssuerFetch({ outbound, timeoutMs })
  let loading = 0

  async function load(issuer: string): Promise<Entry> {
    // Others would let the server collect responses without end.
    if (loading >= maxConcurrentLoads) throw unavailable()
    loading++
    try {
      return await loadNow(issuer)
    } finally {
      loading--
    }
  }

  async function loadNow(issuer: string): Promise<Entry> {
    const keys = await loadKeys(issuer, fetchFromIssuer).catch((err) => {
      log.warn({ err, issuer }, 'keys of an issuer not read')
      return undefined
    })
    const entry = { readAt: performance.now(), keys }
    entries.set(issuer, entry)
    return entry
  }

  return {
    async read(issuer, keyId) {
      const known = entries.get(issuer)
      const ageMs = known ? performance.now() - known.readAt : Number.POSITIVE_INFINITY
      const isUsable = known?.keys && ageMs < maxAgeMs && hasKey(known.keys, keyId)
      const entry =
        known && (isUsable || ageMs < retryMs) ? known : await share(issuer, () => load(issuer))
      if (entry.keys) return entry.keys
      throw unavailable()
    },
  }
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
