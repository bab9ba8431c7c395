import { Problem } from '../base/problem.ts'
import { ConnectTimeoutError } from '../outbound/pinned-connect.ts'
import { ResponseTooLargeError } from './response-limit.ts'

/** Seconds for one attempt: for its connection, TLS included, and in all. */
export const connectSeconds = 5
export const attemptSeconds = 15

/** An attempt has taken all its time. */
export class AttemptTimeoutError extends Error {
  override readonly name = 'AttemptTimeout'
}

/** Sentences for what Node and undici say by a code; `@` stands for the host. */
const sentences: Record<string, string> = {
  ECONNREFUSED: 'The receiver refused the connection.',
  ECONNRESET: 'The receiver reset the connection.',
  EPIPE: 'The receiver closed the connection before it had everything.',
  ECONNABORTED: 'The connection broke.',
  ETIMEDOUT: `The receiver could not be connected to within ${connectSeconds} s.`,
  EHOSTUNREACH: 'There is no way to the receiver from this server.',
  ENETUNREACH: 'There is no way to the receiver from this server.',
  EADDRNOTAVAIL: 'There is no way to the receiver from this server.',
  UND_ERR_SOCKET: 'The receiver closed the connection without an answer.',
  UND_ERR_HEADERS_OVERFLOW: 'The headers of the answer are too long.',
  HPE_HEADER_OVERFLOW: 'The headers of the answer are too long.',
  CERT_HAS_EXPIRED: 'The certificate of @ has expired.',
  CERT_NOT_YET_VALID: 'The certificate of @ is not valid yet.',
  ERR_TLS_CERT_ALTNAME_INVALID: 'The certificate of the receiver is not for @.',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'The certificate of @ is self-signed.',
  SELF_SIGNED_CERT_IN_CHAIN: 'The certificate of @ comes from an authority that is not trusted.',
  UNABLE_TO_GET_ISSUER_CERT: 'The certificate of @ comes from an authority that is not trusted.',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    'The certificate of @ comes from an authority that is not trusted.',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    'The certificate of @ comes from an authority that is not trusted, or an intermediate one is missing.',
  CERT_REVOKED: 'The certificate of @ has been revoked.',
  INVALID_PURPOSE: 'The certificate of @ is not one for servers.',
}

/**
 * Says why there was no answer, to whoever reads the delivery. The words of the system are not repeated: they have
 * addresses of the network in which the server is.
 */
export function attemptError(error: unknown, host: string): string {
  if (error instanceof Problem) return error.message
  if (error instanceof AttemptTimeoutError) {
    return `The receiver did not answer within ${attemptSeconds} s.`
  }
  if (error instanceof ConnectTimeoutError) {
    return `The receiver could not be connected to within ${connectSeconds} s.`
  }
  if (error instanceof ResponseTooLargeError) return 'The answer has too much before its body.'
  if (isNoHttp(error)) return 'The answer of the receiver is no HTTP.'
  const code = codeOf(error)
  const sentence = sentences[code]
  if (sentence) return sentence.replace('@', host)
  if (/SSL|TLS|EPROTO/.test(code)) return 'TLS could not be agreed upon with the receiver.'
  if (code.includes('CERT')) return `The certificate of ${host} cannot be verified.`
  return 'The connection to the receiver failed.'
}

function isNoHttp(error: unknown): boolean {
  // Headers that are too long have a sentence of their own.
  if (codeOf(error) === 'HPE_HEADER_OVERFLOW') return false
  if (!(error instanceof Error)) return false
  // By their names: undici is not loaded for them.
  if (error.name === 'HTTPParserError') return true
  // An answer in the wrong place: `bad response`, `bad upgrade`.
  if (error.name === 'SocketError') return error.message.startsWith('bad ')
  // A length that is none, or told twice; and a status below 100, which undici holds to be impossible.
  const code = codeOf(error)
  return code.startsWith('HPE_') || code.startsWith('UND_ERR_RES') || code === 'ERR_ASSERTION'
}

function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return ''
  // Of a host with several addresses each had its own fault.
  const inner = error instanceof AggregateError ? error.errors[0] : error.cause
  const own = 'code' in error && typeof error.code === 'string' ? error.code : ''
  const isWrapped = own === '' || own === 'UND_ERR_SOCKET'
  return (isWrapped && codeOf(inner)) || own
}

/** Says why an answer is a failure; empty when the receiver has taken the delivery. */
export function statusError(status: number): string {
  if (status >= 200 && status < 300) return ''
  const more = status >= 300 && status < 400 ? '; redirects are not followed' : ''
  return `It answered ${status}${more}.`
}
