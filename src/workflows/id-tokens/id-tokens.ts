import { randomUUID, sign } from 'node:crypto'
import { promisify } from 'node:util'
import { Type } from 'typebox'
import type { Clock } from '#base/clock.ts'
import type { Json } from '#base/json.ts'
import { named } from '#http/named-schemas.ts'
import { jsonContentType, type PublicRoute } from '#http/route.ts'
import { createSigningKeys, type PublicJwk } from './signing-keys.ts'

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
    routes: discoveryRoutes(baseUrl, signingKeys.listPublic),

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

// A new key is published a day before it signs.
const headers = { 'cache-control': 'public, max-age=300' }

/** The routes by which verifiers of ID tokens find the issuer and its keys. */
function discoveryRoutes(
  baseUrl: () => string,
  listKeys: () => Promise<PublicJwk[]>,
): PublicRoute[] {
  return [
    {
      kind: 'public',
      method: 'GET',
      path: '/.well-known/openid-configuration',
      operationId: 'getOpenIdConfiguration',
      tag: 'service',
      summary: 'Get the discovery document of OpenID Connect',
      description: 'Describes the issuer of the ID tokens of workflow jobs.',
      produces: jsonContentType,
      reply: Discovery,
      headers,
      handle: () => toDiscovery(baseUrl()),
    },
    {
      kind: 'public',
      method: 'GET',
      path: '/.well-known/jwks',
      operationId: 'getSigningKeys',
      tag: 'service',
      summary: 'Get the public keys of ID tokens',
      description: 'A JSON Web Key Set (RFC 7517); empty until the first ID token is issued.',
      produces: jsonContentType,
      reply: KeySet,
      headers,
      handle: async () => ({ keys: await listKeys() }),
    },
  ]
}

function toDiscovery(issuer: string) {
  return {
    issuer,
    jwks_uri: `${issuer}/.well-known/jwks`,
    subject_types_supported: ['public'],
    response_types_supported: ['id_token'],
    claims_supported: claims,
    id_token_signing_alg_values_supported: ['RS256'],
    scopes_supported: ['openid'],
  }
}

const claims = [
  ...['sub', 'aud', 'exp', 'iat', 'iss', 'jti', 'nbf', 'actor', 'base_ref', 'event_name'],
  ...['head_ref', 'job_workflow_ref', 'job_workflow_sha', 'ref', 'ref_type', 'repository'],
  ...['repository_id', 'repository_owner', 'repository_visibility', 'run_attempt', 'run_id'],
  ...['run_number', 'runner_environment', 'sha', 'workflow', 'workflow_ref', 'workflow_sha'],
]

const texts = (description: string) => Type.Array(Type.String(), { description })

const Discovery = named(
  'OpenIdConfiguration',
  Type.Object({
    issuer: Type.String({ description: 'the `iss` of ID tokens' }),
    jwks_uri: Type.String({ description: 'address of the public keys' }),
    subject_types_supported: texts('kinds of subjects'),
    response_types_supported: texts('kinds of responses'),
    claims_supported: texts('claims of ID tokens'),
    id_token_signing_alg_values_supported: texts('signature algorithms'),
    scopes_supported: texts('scopes'),
  }),
)

const KeySet = named(
  'KeySet',
  Type.Object({
    keys: Type.Array(
      Type.Object({
        kid: Type.String({ description: 'id of the key, which ID tokens have in their header' }),
        kty: Type.String({ description: 'type of the key: `RSA`' }),
        use: Type.String({ description: 'always `sig`' }),
        alg: Type.String({ description: 'always `RS256`' }),
        n: Type.String({ description: 'modulus' }),
        e: Type.String({ description: 'exponent' }),
      }),
    ),
  }),
)
