import { randomUUID, sign } from 'node:crypto'
import { promisify } from 'node:util'
import type { Clock } from '#base/clock.ts'
import type { Json } from '#base/json.ts'
import type { PublicRoute } from '#http/route.ts'
import { discoveryRoutes } from './discovery-routes.ts'
import { createSigningKeys } from './signing-keys.ts'

/** ID tokens of OpenID Connect, with which a job proves to other services what it is. */
export type IdTokens = {
  /** The discovery document and the public keys. */
  routes: PublicRoute[]
  /** Signs a token with claims, for five minutes. Throws `encryption_key_missing`. */
  issue: (claims: Record<string, Json>, audience: string | undefined) => Promise<string>
}

type Dependencies = Parameters<typeof createSigningKeys>[0] & {
  clock: Clock
  /** The public address of the service, which is the issuer. */
  baseUrl: () => string
}

const lifetimeSeconds = 300
// For verifiers whose clock is behind.
const skewSeconds = 60

const signAsync = promisify(sign)

export function createIdTokens(dependencies: Dependencies): IdTokens {
  const { clock, baseUrl } = dependencies
  const signingKeys = createSigningKeys(dependencies)

  return {
    routes: discoveryRoutes({ baseUrl, listKeys: signingKeys.listPublic }),

    async issue(claims, audience) {
      const { id: kid, privateKey } = await signingKeys.current()
      const now = Math.floor(clock.now() / 1000)
      const issuer = baseUrl()
      const times = { nbf: now - skewSeconds, iat: now, exp: now + lifetimeSeconds }
      const about = { jti: randomUUID(), aud: audience ?? issuer, iss: issuer, ...times }
      const header = { typ: 'JWT', alg: 'RS256', kid }
      // RFC 7515, section 3.1.
      const input = `${encode(header)}.${encode({ ...claims, ...about })}`
      const signature = await signAsync('sha256', Buffer.from(input), privateKey)
      return `${input}.${signature.toString('base64url')}`
    },
  }
}

function encode(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url')
}
