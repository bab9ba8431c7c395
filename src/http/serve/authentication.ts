import type { Authenticate, Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import { createRateLimiter } from '#base/concurrency/rate-limiter.ts'
import { networkOf } from '#base/network.ts'
import { Problem } from '#base/problem.ts'

/** The accepted schemes of the `Authorization` header: Bearer (RFC 6750), or also Basic (RFC 7617). */
export type Scheme = 'bearer' | 'basic-or-bearer'

type Options = {
  authenticate: Authenticate
  badTokensPerMinute: number
  clock: Clock
}

/** Authenticates requests. Limits the rate of invalid tokens per address; valid ones always work. */
export function createAuthentication({ authenticate, badTokensPerMinute, clock }: Options) {
  const badTokens = createRateLimiter({
    perSecond: badTokensPerMinute / 60,
    burst: badTokensPerMinute,
    clock,
  })

  /** Counts an invalid token or login code of an address. Returns the Problem, which says whether they are too many. */
  function countInvalid(address: string, invalid: string | Problem): Problem {
    const retryAfterSeconds = badTokens.acquire(networkOf(address))
    if (retryAfterSeconds <= 0)
      return typeof invalid === 'string' ? new Problem('token_invalid', invalid) : invalid
    return new Problem('too_many_bad_tokens', 'Too many invalid tokens from this address.', {
      retryAfterSeconds,
    })
  }

  async function identify(
    header: string | undefined,
    address: string,
    { scheme, allowsExpiredKeys = false }: { scheme: Scheme; allowsExpiredKeys?: boolean },
  ): Promise<Principal> {
    if (header === undefined) throw tokenRequired(scheme)
    const token = tokenIn(header, scheme)
    const principal =
      token === undefined ? undefined : await authenticate(token, { allowsExpiredKeys })
    if (principal) return principal
    const detail =
      token === undefined
        ? `The Authorization header is not understood: ${howTo[scheme]}.`
        : 'The token is mistyped, unknown, deleted or expired, or its user is disabled.'
    throw countInvalid(address, detail)
  }

  return { identify, countInvalid }
}

const howTo: Record<Scheme, string> = {
  bearer: '`Authorization: Bearer svc_…`',
  'basic-or-bearer': 'any user name and the token as password',
}

/** The Problem of a request without a token. */
export function tokenRequired(scheme: Scheme): Problem {
  return new Problem('token_required', `Send an API token: ${howTo[scheme]}.`)
}

/** The value of `WWW-Authenticate` (RFC 9110, section 11.6.1). */
export function challenge(scheme: Scheme): string {
  return scheme === 'bearer' ? 'Bearer realm="svc"' : 'Basic realm="svc", charset="UTF-8"'
}

function tokenIn(header: string, scheme: Scheme): string | undefined {
  const [, kind = '', credentials = ''] = /^(\w+) +([\w.~+/=-]+)$/.exec(header.trim()) ?? []
  if (/^bearer$/i.test(kind)) return credentials
  if (scheme === 'bearer' || !/^basic$/i.test(kind)) return undefined
  const [, password] = /^[^:]*:(.*)$/s.exec(Buffer.from(credentials, 'base64').toString()) ?? []
  return password
}
