import type { ClientAuth, Configuration, CustomFetch } from 'openid-client'
import { createResultCache } from '#base/concurrency/result-cache.ts'
import { once } from '#base/once.ts'
import type { Outbound } from '#base/outbound/outbound.ts'
import { Problem } from '#base/problem.ts'
import type { Sensitive } from '#base/sensitive.ts'
import { createIssuerFetch, type IssuerFetch } from '../issuer-fetch.ts'
import { examineProvider, type ProviderFault, providerErrorReason } from './examine-provider.ts'
import { type ClaimNames, type Person, readPerson } from './person.ts'

/** What an attempt of a login keeps until the browser comes back. */
type AttemptSecrets = { state: string; nonce: string; codeVerifier: string }

type ProviderAnswer = { person: Person; refreshToken: string | undefined }

/** The identity provider of the settings: OpenID Connect Core 1.0, with the authorization code flow. */
export type IdentityProvider = {
  issuer: string
  /** The name by which people know it. */
  name: string
  /** The address to which a browser goes to log in; `isFresh` asks for the password again. */
  addressOf: (
    attempt: AttemptSecrets,
    options: { redirectUri: string; isFresh: boolean },
  ) => Promise<string>
  /** Completes a login by the address to which the browser came back. Throws `login_refused`, `provider_unavailable`. */
  complete: (
    callback: URL,
    attempt: AttemptSecrets,
    options: { isFresh: boolean },
  ) => Promise<ProviderAnswer>
  /** Reads a person again; undefined if the provider no longer knows the login. Throws `provider_unavailable`. */
  recheck: (login: { subject: string; refreshToken: string }) => Promise<ProviderAnswer | undefined>
  /** The address at which a browser logs out there; undefined if there is none. */
  logoutAddress: (returnTo: string) => Promise<string | undefined>
  /** Returns why no login can work, as far as that shows without one; for administrators. */
  examine: () => Promise<ProviderFault[]>
}

type Options = ClaimNames & {
  issuer: string
  clientId: string
  clientSecret: Sensitive<string> | undefined
  scopes: string | undefined
  /** Where the service may connect: to the host of the issuer, and elsewhere. */
  outbound: Outbound
  issuerOutbound: Outbound
  timeoutMs?: number | undefined
}

/** For how long a confirmation may have taken. */
const freshSeconds = 300
/** For how long the discovery document is used again, so that visits of the login page are not as many requests. */
const discoveryMs = 60_000
const discoveryMaxLength = 2 * 1024 * 1024

export function createIdentityProvider(options: Options): IdentityProvider {
  const { clientId, clientSecret, scopes } = options
  const issuer = new URL(options.issuer)
  const load = once(() => import('openid-client'))
  const [fetchFromIssuer, fetchElsewhere] = [options.issuerOutbound, options.outbound].map(
    (outbound) => createIssuerFetch({ outbound, ...timeoutOf(options) }),
  ) as [IssuerFetch, IssuerFetch]

  // Without encryption only where the settings say so.
  function isOfIssuer({ origin, protocol }: URL): boolean {
    if (origin !== issuer.origin && protocol !== 'https:')
      throw new Error(`${origin} is not the issuer, and not encrypted`)
    return origin === issuer.origin
  }

  const send: IssuerFetch = async (address, init) =>
    (isOfIssuer(new URL(address)) ? fetchFromIssuer : fetchElsewhere)(address, init)

  const documents = createResultCache<{ text: string; type: string }>({
    lengthOf: ({ text }) => text.length,
    maxLength: discoveryMaxLength,
    maxAgeMs: discoveryMs,
  })

  const sendDiscovery: CustomFetch = async (address, init) => {
    const { text, type } = await documents(address, async () => {
      const response = await send(address, init)
      if (response.status !== 200) throw new Error(`${address} responds with ${response.status}`)
      return { text: await response.text(), type: response.headers.get('content-type') ?? '' }
    })
    return new Response(text, { headers: { 'content-type': type } })
  }

  /** Reads the metadata and, as soon as they are needed, the keys: no key is older than the login that uses it. */
  async function readConfiguration(): Promise<Configuration> {
    const client = await load()
    const execute = [client.enableNonRepudiationChecks]
    if (issuer.protocol === 'http:') execute.push(client.allowInsecureRequests)
    const authenticate = await authentication()
    const configuration = await client.discovery(issuer, clientId, undefined, authenticate, {
      execute,
      [client.customFetch]: sendDiscovery,
    })
    configuration[client.customFetch] = send
    return configuration
  }

  async function discover(): Promise<Configuration> {
    try {
      return await readConfiguration()
    } catch (error) {
      const reason = `no login at ${issuer.href}; check SVC_OIDC_ISSUER: ${providerErrorReason(error)}`
      throw unavailable(new Error(reason, { cause: error }))
    }
  }

  async function authentication(): Promise<ClientAuth> {
    const { None, ClientSecretBasic, ClientSecretPost } = await load()
    if (clientSecret === undefined) return None()
    const [basic, post] = [ClientSecretBasic, ClientSecretPost].map((method) =>
      method(clientSecret.reveal()),
    ) as [ClientAuth, ClientAuth]
    return (server, metadata, body, headers) => {
      // RFC 8414, section 2.
      const methods = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic']
      const method = methods.includes('client_secret_basic') ? basic : post
      return method(server, metadata, body, headers)
    }
  }

  /** Joins the claims of the ID token and, where there is one, of the UserInfo endpoint. */
  async function read(
    configuration: Configuration,
    tokens: { access_token: string; refresh_token?: string },
    idToken: Record<string, unknown> | undefined,
    subject: string,
  ): Promise<ProviderAnswer> {
    const { fetchUserInfo } = await load()
    const hasUserInfo = configuration.serverMetadata().userinfo_endpoint !== undefined
    if (!hasUserInfo && idToken === undefined) throw unavailable('no claims')
    const userInfo = hasUserInfo
      ? await fetchUserInfo(configuration, tokens.access_token, subject)
      : {}
    const person = readPerson({ ...idToken, ...userInfo, sub: subject }, options)
    return { person, refreshToken: tokens.refresh_token }
  }

  return {
    issuer: issuer.href,
    name: issuer.host,

    async addressOf({ state, nonce, codeVerifier }, { redirectUri, isFresh }) {
      const { buildAuthorizationUrl, calculatePKCECodeChallenge } = await load()
      const configuration = await discover()
      const { scopes_supported: supported = [] } = configuration.serverMetadata()
      const offline = supported.includes('offline_access') ? ' offline_access' : ''
      const codeChallenge = await calculatePKCECodeChallenge(codeVerifier)
      try {
        return buildAuthorizationUrl(configuration, {
          redirect_uri: redirectUri,
          scope: scopes ?? `openid profile email${offline}`,
          ...{ state, nonce, code_challenge: codeChallenge, code_challenge_method: 'S256' },
          ...(isFresh && { max_age: '0' }),
        }).href
      } catch (error) {
        // Of an address that a browser would not open, but execute.
        throw unavailable(error)
      }
    },

    async complete(callback, { state, nonce, codeVerifier }, { isFresh }) {
      const { authorizationCodeGrant } = await load()
      const configuration = await discover()
      try {
        const tokens = await authorizationCodeGrant(configuration, callback, {
          expectedState: state,
          expectedNonce: nonce,
          pkceCodeVerifier: codeVerifier,
          idTokenExpected: true,
        })
        const claims = tokens.claims()
        if (claims === undefined) throw new Error('There is no ID token.')
        // A provider that ignores `max_age` may leave out the time.
        const { auth_time: loggedInAt = claims.iat } = claims
        if (isFresh && Number(loggedInAt) < claims.iat - freshSeconds) throw notFresh()
        return await read(configuration, tokens, claims, claims.sub)
      } catch (error) {
        throw await toProblem(error)
      }
    },

    async recheck({ subject, refreshToken }) {
      const { refreshTokenGrant, ResponseBodyError } = await load()
      const configuration = await discover()
      try {
        const tokens = await refreshTokenGrant(configuration, refreshToken)
        const claims = tokens.claims()
        if (claims !== undefined && claims.sub !== subject) return undefined
        return await read(configuration, tokens, claims, subject)
      } catch (error) {
        if (error instanceof ResponseBodyError && error.error === 'invalid_grant') return undefined
        throw error instanceof Problem ? error : unavailable(error)
      }
    },

    async logoutAddress(returnTo) {
      const { buildEndSessionUrl } = await load()
      const configuration = await discover()
      if (configuration.serverMetadata().end_session_endpoint === undefined) return undefined
      return buildEndSessionUrl(configuration, { post_logout_redirect_uri: returnTo }).href
    },

    examine: () =>
      examineProvider({
        issuer: issuer.href,
        discover: async () => ({ ...(await readConfiguration()).serverMetadata() }),
        send,
        async requireAllowed(address) {
          const url = new URL(address)
          if (!isOfIssuer(url)) await options.outbound.resolve(url.hostname)
        },
      }),
  }

  async function toProblem(error: unknown): Promise<Problem> {
    const { AuthorizationResponseError, ResponseBodyError } = await load()
    if (error instanceof Problem) return error
    if (error instanceof AuthorizationResponseError && error.error === 'access_denied') {
      return refusedLogin('The identity provider did not let you in.', error)
    }
    if (error instanceof ResponseBodyError && error.error === 'invalid_grant')
      return refusedLogin(
        'The identity provider no longer accepts this login. Log in again.',
        error,
      )
    return error instanceof AuthorizationResponseError || error instanceof ResponseBodyError
      ? refusedService(error)
      : unavailable(error)
  }
}

function timeoutOf({ timeoutMs }: Options) {
  return timeoutMs === undefined ? {} : { timeoutMs }
}

export function refusedLogin(detail: string, cause?: unknown): Problem {
  return new Problem('login_refused', detail, { cause })
}

function notFresh(): Problem {
  return refusedLogin('The identity provider did not ask for your password again. Log in again.')
}

/** An error of RFC 6749 that is due to the registration of this service at the provider. */
function refusedService(
  response: Error & { error: string; error_description?: string | undefined },
): Problem {
  const { error, error_description: description } = response
  const reason = description === undefined ? error : `${error}: ${description}`
  // RFC 6749, section 5.2.
  const shown = reason.replace(/[^\u0020-\u007e]/g, '').slice(0, 300)
  const detail =
    `The identity provider responds to this service with the error "${shown}". An administrator has to compare the ` +
    'settings of the login, SVC_OIDC_CLIENT_ID and others, with what is registered there.'
  return new Problem('provider_unavailable', detail, {
    cause: new Error(detail, { cause: response }),
  })
}

/** The cause is logged; a person can do nothing with it. */
function unavailable(cause: unknown): Problem {
  const detail =
    'The identity provider does not respond, or not as it should. Try again in a minute; if that does not help, an ' +
    'administrator finds the reason in the log of the server.'
  return new Problem('provider_unavailable', detail, { cause })
}
