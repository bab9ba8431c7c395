import type { JWTPayload } from 'jose'
import type { Log } from '#base/log.ts'
import { once } from '#base/once.ts'
import { Problem } from '#base/problem.ts'
import type { IssuerKeys } from './issuer-keys.ts'

/** What an issuer says of a workload, with its signature verified. */
export type Workload = { issuer: string; subject: string; claims: JWTPayload }

type Options = {
  keys: IssuerKeys
  log: Log
  /** The users whose rules name an issuer, which may be contacted if there are any. */
  usersOf: (issuer: string) => Promise<string[]>
  now: number
}

/** Signatures by keys that only the issuer has: RFC 7518, section 3.1, and RFC 8037. */
const algorithms = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
]

/** For issuers whose clock differs. */
const leewaySeconds = 30
/** Also of a token that expires later. Kubernetes replaces its own after this time at the latest. */
const maxAgeSeconds = 24 * 60 * 60
const maxLength = 16 * 1024

const loadJose = once(() => import('jose'))

/**
 * Verifies a JWT: RFC 7519, RFC 8725. Its audience and the other claims are left to the trust rules. Throws
 * `exchange_refused`, and `issuer_unavailable`.
 */
export async function verifyWorkload(token: string, options: Options): Promise<Workload> {
  const { keys, log, usersOf, now } = options
  const { createLocalJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify, errors } =
    await loadJose()
  if (token.length > maxLength) throw refused('The subject token is too long.')
  const { iss: issuer, alg, kid } = decode()
  if (!algorithms.includes(String(alg)))
    throw refused(`The subject token must be signed with one of ${algorithms.join(', ')}.`)
  if (typeof issuer !== 'string') throw refused('The subject token has no issuer.')
  // PostgreSQL cannot store NUL, nor look for it.
  const usernames = /\p{C}/u.test(issuer) ? [] : await usersOf(issuer)
  if (usernames.length === 0) {
    log.info({ issuer: issuer.slice(0, 255) }, 'exchange refused: no trust rule names the issuer')
    throw refused(notSigned)
  }
  const keySet = await keys.read({ issuer, keyId: kid, usernames })
  try {
    const { payload } = await jwtVerify(token, createLocalJWKSet(keySet), {
      ...{ issuer, algorithms, clockTolerance: leewaySeconds, maxTokenAge: maxAgeSeconds },
      requiredClaims: ['sub', 'aud', 'exp'],
      currentDate: new Date(now),
    })
    const { sub: subject = '' } = payload
    if (!/^[^\p{C}]{1,255}$/u.test(subject))
      throw refused('The subject of the token must have 1 to 255 characters.')
    return { issuer, subject, claims: payload }
  } catch (error) {
    throw error instanceof Problem ? error : refused(toSentence(error), error)
  }

  function decode() {
    try {
      const header = decodeProtectedHeader(token)
      return { iss: decodeJwt(token).iss, alg: header.alg, kid: header.kid }
    } catch (error) {
      throw refused('The subject token is not a signed JWT.', error)
    }
  }

  function toSentence(error: unknown): string {
    if (error instanceof errors.JWTExpired) return 'The token has expired, or is older than a day.'
    if (error instanceof errors.JWTClaimValidationFailed)
      return `The claim "${error.claim}" of the token is missing or not acceptable.`
    log.info({ err: error, issuer }, 'exchange refused: the token is not verified')
    return notSigned
  }
}

/** The same for an unknown issuer, so that callers do not learn which issuers rules name. */
const notSigned =
  'The token is not signed with a key of an issuer that a trust rule names; the log of the server has details.'

/** The codes of a failed exchange: RFC 6749, section 5.2, and RFC 8693, section 2.2.2. */
type ExchangeError = 'invalid_request' | 'invalid_target' | 'unsupported_grant_type'

/** The Problem of an exchange, also in the form of RFC 6749. */
export function refusedExchange(error: ExchangeError, detail: string, cause?: unknown): Problem {
  const members = { error, error_description: detail }
  return new Problem('exchange_refused', detail, { members, cause })
}

function refused(detail: string, cause?: unknown): Problem {
  return refusedExchange('invalid_request', detail, cause)
}
