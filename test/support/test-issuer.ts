import { createHash, randomBytes } from 'node:crypto'
import dns from 'node:dns/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'

import { withHost } from '#base/outbound/allowed-ranges.ts'
import { createOutbound } from '#base/outbound/outbound.ts'
import { Sensitive } from '#base/sensitive.ts'
import { createIdentityProvider } from '#identity/logins/identity-provider.ts'

type Claims = Record<string, unknown> & { sub: string }
type Grant = { claims: Claims; nonce: string | undefined; challenge?: string; redirectUri?: string }
type Handler = (response: ServerResponse, request: IncomingMessage) => unknown

export type TestIssuer = Awaited<ReturnType<typeof startTestIssuer>>

const testClient = { id: 'svc', secret: 'a secret: 100%' }

/**
 * An identity provider on loopback that signs real tokens. It behaves well until a test changes its claims, its header, its
 * keys, or a whole response.
 */
export async function startTestIssuer() {
  const codes = new Map<string, Grant>()
  const refreshTokens = new Map<string, Grant>()
  const accessTokens = new Map<string, Claims>()
  let keys = await newKey('first')
  const published: JWK[] = [keys.jwk]
  const change = {
    /** Responses by path in place of its own. */
    handlers: {} as Record<string, Handler>,
    metadata: {} as Record<string, unknown>,
    claims: (claims: Record<string, unknown>) => claims,
    /** Signs claims in another way. */
    sign: undefined as ((claims: Record<string, unknown>) => Promise<string> | string) | undefined,
    hasRefreshTokens: true,
    /** Whether a code can be used again, and by anybody. */
    isCareless: false,
  }
  const usual = { ...change }

  async function tokensOf(grant: Grant) {
    const now = Math.floor(Date.now() / 1000)
    const about = { iss: url, aud: testClient.id, iat: now, exp: now + 300, auth_time: now }
    const claims = change.claims({
      ...{ sub: grant.claims.sub, ...about },
      ...(grant.nonce !== undefined && { nonce: grant.nonce }),
    })
    const sign = change.sign ?? signWith(keys)
    const [accessToken, refreshToken] = [newSecret(), newSecret()]
    accessTokens.set(accessToken, grant.claims)
    if (change.hasRefreshTokens) refreshTokens.set(refreshToken, { ...grant, nonce: undefined })
    return {
      ...{ access_token: accessToken, token_type: 'Bearer', expires_in: 300 },
      id_token: await sign(claims),
      ...(change.hasRefreshTokens && { refresh_token: refreshToken }),
    }
  }

  async function token(response: ServerResponse, request: IncomingMessage) {
    const form = new URLSearchParams(await text(request))
    const [, credentials = ''] = (request.headers.authorization ?? '').split(' ')
    const [id, secret] = Buffer.from(credentials, 'base64').toString().split(':').map(decodeForm)
    if (id !== testClient.id || secret !== testClient.secret)
      return send(response, 401, { error: 'invalid_client' })
    const isRefresh = form.get('grant_type') === 'refresh_token'
    const [store, name] = isRefresh
      ? ([refreshTokens, 'refresh_token'] as const)
      : ([codes, 'code'] as const)
    const grant = store.get(form.get(name) ?? '')
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url')
    const isMeant =
      isRefresh ||
      (grant?.challenge === challenge && grant.redirectUri === form.get('redirect_uri'))
    if (!grant || !(isMeant || change.isCareless))
      return send(response, 400, { error: 'invalid_grant' })
    // Each works once.
    if (!change.isCareless) store.delete(form.get(name) ?? '')
    return send(response, 200, await tokensOf(grant))
  }

  const own: Record<string, Handler> = {
    '/.well-known/openid-configuration': (response) =>
      send(response, 200, {
        issuer: url,
        authorization_endpoint: `${url}/authorize`,
        token_endpoint: `${url}/token`,
        userinfo_endpoint: `${url}/userinfo`,
        jwks_uri: `${url}/jwks`,
        end_session_endpoint: `${url}/logout`,
        authorization_response_iss_parameter_supported: true,
        ...change.metadata,
      }),
    '/jwks': (response) => send(response, 200, { keys: published }),
    '/token': token,
    '/userinfo': (response, request) => {
      const claims = accessTokens.get((request.headers.authorization ?? '').slice('Bearer '.length))
      return claims ? send(response, 200, claims) : send(response, 401, { error: 'invalid_token' })
    },
  }
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '', 'http://issuer')
    const handler = change.handlers[pathname] ?? own[pathname]
    if (!handler) return void response.writeHead(404).end()
    Promise.resolve(handler(response, request)).catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  // It listens on TCP.
  const { port } = server.address() as AddressInfo
  const url = `http://127.0.0.1:${port}`

  return {
    url,
    change,

    /** Behaves well again. */
    reset: () => Object.assign(change, usual, { handlers: {}, metadata: {} }),

    /** Lets a person log in at the address of a login; returns where the browser goes on. */
    authorize(address: string, claims: Claims): URL {
      const { searchParams } = new URL(address)
      const code = newSecret()
      const redirectUri = searchParams.get('redirect_uri') ?? ''
      codes.set(code, {
        claims,
        nonce: searchParams.get('nonce') ?? undefined,
        challenge: searchParams.get('code_challenge') ?? '',
        redirectUri,
      })
      const callback = new URL(redirectUri)
      callback.search = `${new URLSearchParams({ code, state: searchParams.get('state') ?? '', iss: url })}`
      return callback
    },

    /** Changes what it knows of a person who is logged in. */
    update(sub: string, claims: Record<string, unknown>) {
      for (const grant of refreshTokens.values())
        if (grant.claims.sub === sub) grant.claims = { ...claims, sub }
    },

    /** Ends the login of a person. */
    forget(sub: string) {
      for (const [name, { claims }] of refreshTokens)
        if (claims.sub === sub) refreshTokens.delete(name)
    },

    /** Signs with a new key, and no longer has the former one. */
    async rotate() {
      keys = await newKey(newSecret())
      published.splice(0, published.length, keys.jwk)
    },

    /** The public key, as anybody can read it. */
    publicKey: () => keys.jwk,
    signWith: (header: { alg?: string; kid?: string }) => signWith(keys, header),

    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

async function newKey(kid: string) {
  const { privateKey, publicKey } = await generateKeyPair('RS256', { extractable: true })
  return { privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg: 'RS256', use: 'sig' } }
}

function signWith(
  { privateKey, jwk }: Awaited<ReturnType<typeof newKey>>,
  header: { alg?: string; kid?: string } = {},
) {
  return (claims: Record<string, unknown>) =>
    new SignJWT(claims)
      .setProtectedHeader({ alg: 'RS256', kid: jwk.kid, ...header })
      .sign(privateKey)
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

/** An identity provider of the service, at the address of a test issuer. */
export function providerAt(url: string, timeoutMs?: number) {
  const allow = { classes: ['external'], ranges: [], names: [] } as const
  const lookup = (name: string) => dns.lookup(name, { all: true })
  return createIdentityProvider({
    issuer: url,
    clientId: testClient.id,
    clientSecret: new Sensitive(testClient.secret),
    scopes: undefined,
    usernameClaim: 'preferred_username',
    groupsClaim: 'groups',
    outbound: createOutbound({ allow, lookup }),
    issuerOutbound: createOutbound({ allow: withHost(allow, '127.0.0.1'), lookup }),
    timeoutMs,
  })
}

function newSecret(): string {
  return randomBytes(16).toString('base64url')
}

/** Decodes a part of the credentials of a client: RFC 6749, section 2.3.1. */
function decodeForm(part: string): string {
  return decodeURIComponent(part.replaceAll('+', ' '))
}
