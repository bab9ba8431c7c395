import { Problem } from '#base/problem.ts'
import type { IssuerFetch } from '../issuer-fetch.ts'

/** A fault of the identity provider in one sentence, and in another one what to do about which setting. */
export type ProviderFault = { found: string; fix: string }

type Examination = {
  issuer: string
  /** Reads the discovery document; throws if that fails, or if it is of another issuer. */
  discover: () => Promise<Metadata>
  /** Sends a request; throws if the service may not connect there. */
  send: IssuerFetch
  /** Throws if the service may not connect to an address. */
  requireAllowed: (address: string) => Promise<void>
}

type Metadata = { readonly [name: string]: unknown }

/** Returns why no login can work, as far as that shows without one. */
export async function examineProvider(examination: Examination): Promise<ProviderFault[]> {
  const { issuer, discover, send, requireAllowed } = examination
  let metadata: Metadata
  try {
    metadata = await discover()
  } catch (error) {
    return [toFault(`The discovery document of ${issuer} cannot be used`, error)]
  }

  /** Of an endpoint; without one, that it is missing. */
  async function faultOf(
    name: string,
    check: (address: string) => Promise<void>,
  ): Promise<ProviderFault | undefined> {
    try {
      const address = URL.parse(String(metadata[name]))
      if (!address) throw new Error('the discovery document has no such address')
      await check(address.href)
      return undefined
    } catch (error) {
      return toFault(`The ${name} of ${issuer} cannot be used`, error)
    }
  }

  const faults = await Promise.all([
    faultOf('authorization_endpoint', async () => {}),
    faultOf('token_endpoint', requireAllowed),
    'userinfo_endpoint' in metadata ? faultOf('userinfo_endpoint', requireAllowed) : undefined,
    faultOf('jwks_uri', (address) => requireKeys(address, send)),
  ])
  return faults.filter((fault) => fault !== undefined)
}

async function requireKeys(address: string, send: IssuerFetch): Promise<void> {
  const response = await send(address, { headers: { accept: 'application/json' } })
  if (response.status !== 200) throw new Error(`${address} responds with ${response.status}`)
  const document: unknown = await response.json().catch(() => undefined)
  const { keys } = Object(document)
  if (!Array.isArray(keys) || keys.length === 0) throw new Error(`${address} has no keys`)
}

function toFault(subject: string, error: unknown): ProviderFault {
  const reason = providerErrorReason(error).replace(/\.$/, '')
  const isForbidden = error instanceof Problem && error.code === 'outbound_forbidden'
  return {
    found: `${subject}: ${reason}.`,
    fix: isForbidden
      ? 'Add the host to SVC_OUTBOUND_ALLOW.'
      : 'Check SVC_OIDC_ISSUER, the way there from this machine, and the provider.',
  }
}

/** The message of the first cause that is known: the library wraps errors of requests. */
export function providerErrorReason(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { cause } = error
  if (cause instanceof Error) return providerErrorReason(cause)
  // The library's error about a discovery document of another issuer.
  const named = Object(Object(cause).body).issuer
  return typeof named === 'string'
    ? `the issuer there is ${JSON.stringify(named.slice(0, 300))}`
    : error.message
}
