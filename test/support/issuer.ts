import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from 'jose'

type Key = { kid: string; privateKey: CryptoKey; publicJwk: JWK }

/** How a JWT is signed. */
type Signing = { alg?: string; key?: Key; header?: object; age?: number; lifetime?: number }

/** Claims of a JWT; an undefined one is left out. */
export type Claims = Record<string, unknown>

export type Issuer = Awaited<ReturnType<typeof startIssuer>>

/** An issuer of ID tokens on loopback, with its discovery document and keys, which a test may replace. */
export async function startIssuer() {
  let requests = 0
  let respond: (request: IncomingMessage, response: ServerResponse) => void = serve
  const server = createServer((request, response) => {
    requests++
    respond(request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const url = `http://127.0.0.1:${port}`
  const first = await newKey()
  let jwks: object = { keys: [first.publicJwk] }

  function serve({ url: path }: IncomingMessage, response: ServerResponse): void {
    const isDiscovery = path === '/.well-known/openid-configuration'
    response.end(JSON.stringify(isDiscovery ? { issuer: url, jwks_uri: `${url}/keys` } : jwks))
  }

  return {
    url,
    key: first,
    /** The number of requests so far. */
    requests: () => requests,
    /** Replaces the key set. */
    publish(keys: object[]) {
      jwks = { keys }
    },
    /** Replaces all responses. */
    answer(handler: typeof respond | undefined) {
      respond = handler ?? serve
    },
    /** Signs claims as an ID token of a job, which is a few seconds old. */
    sign(claims: Claims, { key = first, header, age = 5, lifetime = 300 }: Signing = {}) {
      const issuedAt = Math.floor(Date.now() / 1000) - age
      const times = { iat: issuedAt, nbf: issuedAt, exp: issuedAt + lifetime }
      return new SignJWT({ iss: url, jti: crypto.randomUUID(), ...times, ...claims } as JWTPayload)
        .setProtectedHeader({ typ: 'JWT', alg: 'RS256', kid: key.kid, ...header })
        .sign(key.privateKey)
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
    },
  }
}

/** A new RSA key pair, with the public half as an issuer publishes it. */
export async function newKey(more: object = {}): Promise<Key> {
  const { publicKey, privateKey } = await generateKeyPair('RS256', { extractable: true })
  const kid = crypto.randomUUID()
  const publicJwk = { ...(await exportJWK(publicKey)), kid, use: 'sig', alg: 'RS256', ...more }
  return { kid, privateKey, publicJwk }
}

const grantType = 'urn:ietf:params:oauth:grant-type:token-exchange'
const jwtType = 'urn:ietf:params:oauth:token-type:jwt'

/** Sends a request of a token exchange, as a job does. */
export function sendExchange(
  service: { url: string },
  subjectToken: string,
  fields: Record<string, string> = {},
): Promise<Response> {
  return fetch(`${service.url}/tokens/exchange`, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: grantType,
      subject_token: subjectToken,
      subject_token_type: jwtType,
      resource: `${service.url}/repos/site.git`,
      ...fields,
    }),
  })
}
