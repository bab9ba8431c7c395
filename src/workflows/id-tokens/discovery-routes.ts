import { Type } from 'typebox'
import { named } from '#http/named-schemas.ts'
import { jsonContentType, type PublicRoute } from '#http/route.ts'
import type { PublicJwk } from './signing-keys.ts'

type Dependencies = { baseUrl: () => string; listKeys: () => Promise<PublicJwk[]> }

// A new key is published a day before it signs.
const headers = { 'cache-control': 'public, max-age=300' }

/** The routes by which verifiers of ID tokens find the issuer and its keys. */
export function discoveryRoutes({ baseUrl, listKeys }: Dependencies): PublicRoute[] {
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
