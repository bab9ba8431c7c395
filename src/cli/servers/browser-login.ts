import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { challengeOf, newSecret } from '#base/secret-string.ts'
import { within } from '#base/timeouts.ts'
import { CommandError } from '../terminal/command-errors.ts'
import type { ClientContext } from './connect.ts'
import { notSvc } from './http-client.ts'
import { openBrowser } from './open-browser.ts'

type BrowserLogin = { url: string; timeoutMs: number }

const waitMs = 10 * 60_000
const pollMs = 1000

/** The identity provider at which people log in to a server; null if there is none. */
export async function providerOf(login: BrowserLogin): Promise<string | null> {
  const { provider } = await post(login, '/-/cli/codes', {})
  return typeof provider === 'string' ? provider : null
}

/**
 * Gets a token by the browser of this machine, to which the command line listens on a loopback address (RFC 8252). Another
 * program that listens there instead gets a code without the verifier (PKCE, RFC 7636), which is worth nothing.
 */
export async function logInByBrowser(
  { environment, terminal }: Pick<ClientContext, 'environment' | 'terminal'>,
  login: BrowserLogin,
): Promise<string> {
  const [verifier, state] = [newSecret(), newSecret()]
  const { promise: code, resolve } = Promise.withResolvers<string>()
  const server = createServer((request, response) => {
    const { searchParams } = new URL(request.url ?? '/', 'http://127.0.0.1')
    const given = searchParams.get('code')
    const isOwn = given !== null && searchParams.get('state') === state
    response.writeHead(isOwn ? 200 : 400, { 'content-type': 'text/plain', connection: 'close' })
    response.end(isOwn ? 'Logged in. You can close this tab.\n' : 'This is not the login.\n')
    if (isOwn) resolve(given)
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  try {
    // It listens on TCP.
    const { port } = server.address() as AddressInfo
    const query = {
      challenge: challengeOf(verifier),
      port: String(port),
      state,
      machine: hostname(),
    }
    const address = `${login.url}/-/cli?${new URLSearchParams(query)}`
    terminal.err(`Log in with your browser. If it does not open, go to this address:\n${address}\n`)
    openBrowser(environment, address)
    const token = await redeem(login, { code: await within(waitMs, code, expired), verifier })
    if (token === undefined) throw expired()
    return token
  } finally {
    server.close()
    server.closeAllConnections()
  }
}

/** Gets a token by a code that a person enters in a browser on any machine (as RFC 8628). */
export async function logInByCode(
  { terminal }: Pick<ClientContext, 'terminal'>,
  login: BrowserLogin,
): Promise<string> {
  const verifier = newSecret()
  const from = { challenge: challengeOf(verifier), machine: hostname() }
  const { userCode, expiresAt } = await post(login, '/-/cli/codes', from)
  // Anything else could control the terminal.
  const isCode = typeof userCode === 'string' && /^[A-Z]{4}-[A-Z]{4}$/.test(userCode)
  if (!isCode || typeof expiresAt !== 'number') throw notSvc(login.url)
  terminal.err(`Open ${login.url}/-/cli in a browser, and enter the code ${userCode}\n`)
  // The server ends this: the code expires.
  for (;;) {
    const token = await redeem(login, { code: userCode, verifier })
    if (token !== undefined) return token
    await sleep(pollMs)
  }
}

/** The token for a code; undefined before the consent. */
async function redeem(
  login: BrowserLogin,
  body: { code: string; verifier: string },
): Promise<string | undefined> {
  const { token, pending } = await post(login, '/-/cli/token', body)
  if (pending === true) return undefined
  if (typeof token !== 'string') throw notSvc(login.url)
  return token
}

async function post(
  { url, timeoutMs }: BrowserLogin,
  path: string,
  fields: Record<string, string>,
): Promise<Record<string, unknown>> {
  const response = await fetch(url + path, {
    method: 'POST',
    body: new URLSearchParams(fields),
    redirect: 'error',
    // As a form of the pages, which no other site can send.
    headers: { 'sec-fetch-site': 'same-origin' },
    signal: AbortSignal.timeout(timeoutMs),
  }).catch((error) => {
    throw new CommandError('unreachable', `${url} does not respond.`, { cause: error })
  })
  if (response.status === 401 || response.status === 429) throw expired()
  const isJson = response.headers.get('content-type')?.startsWith('application/json')
  if (!response.ok || !isJson) throw notSvc(url)
  const value: unknown = await response.json()
  if (typeof value !== 'object' || value === null) throw notSvc(url)
  return { ...value }
}

function expired(): CommandError {
  return new CommandError(
    'unauthorized',
    'The login was not confirmed in time, or too many codes were wrong. Log in again.',
  )
}
