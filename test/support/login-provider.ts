import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { exportJWK, generateKeyPair } from 'jose'
import { Provider } from 'oidc-provider'
import { freePort } from './free-port.ts'
import { createPageClient, type PageClient } from './page-client.ts'

/** The claims of people by their `sub`; they log in with any password. Tests change them while the provider runs. */
export type People = Record<string, Record<string, unknown>>

/** A real identity provider of these people, for a service at an address. */
export async function startLoginProvider(base: string, people: People) {
  const port = await freePort()
  const issuer = `http://127.0.0.1:${port}`
  const { privateKey } = await generateKeyPair('RS256', { extractable: true })
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: 'svc',
        client_secret: 'a-secret',
        grant_types: ['authorization_code', 'refresh_token'],
        redirect_uris: [`${base}/-/login/callback`],
        post_logout_redirect_uris: [`${base}/-/login`],
      },
    ],
    claims: {
      openid: ['sub'],
      email: ['email', 'email_verified'],
      profile: ['name', 'preferred_username', 'groups'],
    },
    findAccount: async (_, id) => {
      const claims = people[id]
      return claims && { accountId: id, claims: async () => ({ sub: id, ...claims }) }
    },
    issueRefreshToken: async () => true,
    cookies: { keys: ['a key for the cookies of this test'] },
    jwks: { keys: [{ ...(await exportJWK(privateKey)), kid: 'one', alg: 'RS256', use: 'sig' }] },
  })
  const server = createServer(provider.callback()).listen(port, '127.0.0.1')
  await once(server, 'listening')

  /** A browser with the cookies of both: it goes from the service to the provider, logs a person in there, and comes back. */
  function createBrowser() {
    const [here, there] = [createPageClient(base), createPageClient(issuer)]

    async function follow(start: string, sub: string): Promise<{ status: number; text: string }> {
      let address = start
      for (;;) {
        const { origin, pathname, search } = new URL(address)
        const path = pathname + search
        const page = await (origin === issuer ? there : here).get(path)
        const { location } =
          origin === issuer && page.status === 200 ? await answer(there, page.text, sub) : page
        if (location === null) return page
        address = new URL(location, address).href
      }
    }
    return {
      here,
      logIn: (sub: string, path = '/-/login/provider?next=/-/tokens') => follow(base + path, sub),
    }
  }

  /** Fills in the form of the provider: for the login, or for consent. */
  function answer(there: PageClient, page: string, sub: string) {
    const action = /action="([^"]+)"/.exec(page)?.[1] ?? assert.fail(page)
    const { pathname } = new URL(action, issuer)
    return page.includes('name="login"')
      ? there.post(pathname, { prompt: 'login', login: sub, password: 'any' })
      : there.post(pathname, { prompt: 'consent' })
  }

  return {
    issuer,
    /** What the service needs. */
    env: {
      SVC_OIDC_ISSUER: issuer,
      SVC_OIDC_CLIENT_ID: 'svc',
      SVC_OIDC_CLIENT_SECRET: 'a-secret',
    },
    createBrowser,
    [Symbol.asyncDispose]: async () => {
      server.close()
      server.closeAllConnections()
    },
  }
}
