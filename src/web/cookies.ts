import type { IncomingHttpHeaders } from 'node:http'

/** The cookie of sessions: its name and scope depend on the address of the service. */
export type SessionCookie = {
  /** The secret in the headers of a request; undefined if there is none, or more than one. */
  read: (headers: IncomingHttpHeaders) => string | undefined
  /** The value of `Set-Cookie`: RFC 6265, section 4.1. */
  set: (secret: string, maxAgeSeconds: number) => string
  clear: () => string
}

type Address = { isHttps: boolean; prefix: string }

export function createSessionCookie({ isHttps, prefix }: Address): SessionCookie {
  // `__Host-` binds a cookie to the host with the path `/`, `__Secure-` only to HTTPS.
  const name = !isHttps ? 'svc' : prefix === '' ? '__Host-svc' : '__Secure-svc'
  const scope = `Path=${prefix}/; HttpOnly; SameSite=Lax${isHttps ? '; Secure' : ''}`
  return {
    read({ cookie = '' }) {
      const values = cookie
        .split(';')
        .map((pair) => pair.trim())
        .filter((pair) => pair.startsWith(`${name}=`))
      return values.length === 1 ? values[0]?.slice(name.length + 1) : undefined
    },
    set: (secret, maxAgeSeconds) => `${name}=${secret}; Max-Age=${maxAgeSeconds}; ${scope}`,
    clear: () => `${name}=; Max-Age=0; ${scope}`,
  }
}
