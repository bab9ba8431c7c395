import type { IncomingHttpHeaders } from 'node:http'

/** A cookie with a secret: its name and scope depend on the address of the service. */
export type SessionCookie = {
  /** The secrets in the headers of a request: others who can set cookies for the host can add some of the same name. */
  read: (headers: IncomingHttpHeaders) => string[]
  /** The value of `Set-Cookie`: RFC 6265, section 4.1. */
  set: (secret: string, maxAgeSeconds: number) => string
  clear: () => string
}

// Each takes a query of the database.
const maxSecrets = 4

type Address = { isHttps: boolean; prefix: string }

/** Creates the cookie of sessions, or another one. */
export function createSessionCookie(
  { isHttps, prefix }: Address,
  kind: 'svc' | 'svc-login' = 'svc',
): SessionCookie {
  // `__Host-` binds a cookie to the host with the path `/`, `__Secure-` only to HTTPS.
  const name = !isHttps ? kind : prefix === '' ? `__Host-${kind}` : `__Secure-${kind}`
  const scope = `Path=${prefix}/; HttpOnly; SameSite=Lax${isHttps ? '; Secure' : ''}`
  return {
    read: ({ cookie = '' }) => [...new Set(readCookies(cookie, name))].slice(0, maxSecrets),
    set: (secret, maxAgeSeconds) => `${name}=${secret}; Max-Age=${maxAgeSeconds}; ${scope}`,
    clear: () => `${name}=; Max-Age=0; ${scope}`,
  }
}

/** The values of the cookies of a name in a header: RFC 6265, section 4.2. */
export function readCookies(header: string, name: string): string[] {
  return header
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1))
}
