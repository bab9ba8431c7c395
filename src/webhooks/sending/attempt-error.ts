import { ConnectTimeoutError } from '#base/outbound/pinned-connect.ts'
import { Problem } from '#base/problem.ts'
import { ResponseTooLargeError } from './response-limit.ts'

/** Timeouts in seconds: of the connection, TLS included, and of a whole attempt. */
export const connectSeconds = 5
export const attemptSeconds = 15

/** An attempt has reached its timeout. */
export class AttemptTimeoutError extends Error {
  override readonly name = 'AttemptTimeoutError'
}

/** Messages by error code of Node or undici; `@` stands for the host. */
const messages: Record<string, string> = {
  ECONNREFUSED: 'The receiver refused the connection.',
  ECONNRESET: 'The receiver reset the connection.',
  EPIPE: 'The receiver closed the connection before reading the whole request.',
  ECONNABORTED: 'The connection was aborted.',
  ETIMEDOUT: `The connection to the receiver timed out after ${connectSeconds} s.`,
  EHOSTUNREACH: 'The receiver is unreachable from this server.',
  ENETUNREACH: 'The receiver is unreachable from this server.',
  EADDRNOTAVAIL: 'The receiver is unreachable from this server.',
  UND_ERR_SOCKET: 'The receiver closed the connection without a response.',
  UND_ERR_HEADERS_OVERFLOW: 'The response headers are too long.',
  HPE_HEADER_OVERFLOW: 'The response headers are too long.',
  CERT_HAS_EXPIRED: 'The certificate of @ has expired.',
  CERT_NOT_YET_VALID: 'The certificate of @ is not valid yet.',
  ERR_TLS_CERT_ALTNAME_INVALID: 'The certificate of the receiver is not for @.',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'The certificate of @ is self-signed.',
  SELF_SIGNED_CERT_IN_CHAIN: 'The certificate of @ was issued by an untrusted authority.',
  UNABLE_TO_GET_ISSUER_CERT: 'The certificate of @ was issued by an untrusted authority.',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'The certificate of @ was issued by an untrusted authority.',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    'The certificate of @ was issued by an untrusted authority, or an intermediate certificate is missing.',
  CERT_REVOKED: 'The certificate of @ has been revoked.',
  INVALID_PURPOSE: 'The certificate of @ is not a server certificate.',
}

/** Describes why there was no response. Never quotes system messages, which reveal addresses of the internal network. */
export function attemptError(error: unknown, host: string): string {
  if (error instanceof Problem) return error.message
  if (error instanceof AttemptTimeoutError) {
    return `The receiver did not respond within ${attemptSeconds} s.`
  }
  if (error instanceof ConnectTimeoutError) {
    return `The connection to the receiver timed out after ${connectSeconds} s.`
  }
  if (error instanceof ResponseTooLargeError) return 'The response head is too large.'
  if (isInvalidHttp(error)) return 'The response is not valid HTTP.'
  const code = codeOf(error)
  const message = messages[code]
  if (message) return message.replace('@', host)
  if (/SSL|TLS|EPROTO/.test(code)) return 'The TLS handshake with the receiver failed.'
  if (code.includes('CERT')) return `The certificate of ${host} cannot be verified.`
  return 'The connection to the receiver failed.'
}

function isInvalidHttp(error: unknown): boolean {
  // Headers that are too long have their own message.
  if (codeOf(error) === 'HPE_HEADER_OVERFLOW') return false
  if (!(error instanceof Error)) return false
  // Compared by name, so that undici need not be loaded.
  if (error.name === 'HTTPParserError') return true
  // An unexpected response: `bad response`, `bad upgrade`.
  if (error.name === 'SocketError') return error.message.startsWith('bad ')
  // An invalid or repeated length; and a status below 100, which fails an assertion of undici.
  const code = codeOf(error)
  return code.startsWith('HPE_') || code.startsWith('UND_ERR_RES') || code === 'ERR_ASSERTION'
}

function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return ''
  // A host with several addresses has an error for each.
  const inner = error instanceof AggregateError ? error.errors[0] : error.cause
  const own = 'code' in error && typeof error.code === 'string' ? error.code : ''
  const isWrapped = own === '' || own === 'UND_ERR_SOCKET'
  return (isWrapped && codeOf(inner)) || own
}

/** Describes why a response status is a failure; empty if it is a success. */
export function statusError(status: number): string {
  if (status >= 200 && status < 300) return ''
  const suffix = status >= 300 && status < 400 ? '; redirects are not followed' : ''
  return `The receiver responded with status ${status}${suffix}.`
}
