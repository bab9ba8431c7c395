import { codeOf } from '#base/error-code.ts'
import { Problem } from '#base/problem.ts'
import { elementText } from './xml-elements.ts'

/**
 * - `absent`: there is no such object
 * - `unavailable`: no response, or one that asks to try again, after some seconds of retries
 * - `corrupt`: the bytes are not those that were stored
 * - `rejected`: the request as such, for instance its credentials
 */
export type S3ErrorCode = 'absent' | 'unavailable' | 'corrupt' | 'rejected'

/** A request to the object store that failed; the message names the operation, the key and the store's reason. */
export class S3Error extends Error {
  override readonly name = 'S3Error'
  readonly code: S3ErrorCode
  /** The store's own error code, such as `SlowDown`; empty without one. */
  readonly storeCode: string

  constructor(code: S3ErrorCode, message: string, options?: ErrorOptions & { storeCode?: string }) {
    super(message, options)
    this.code = code
    this.storeCode = options?.storeCode ?? ''
  }
}

const retriedStatuses = [408, 429, 500, 502, 503, 504]
// Some of these come with status 400, or within a response of status 200.
const retriedCodes = ['InternalError', 'RequestTimeout', 'ServiceUnavailable', 'SlowDown']
const corruptCodes = ['BadDigest', 'XAmzContentSHA256Mismatch']
const maxReasonLength = 300

/** Translates an error response. Of its body only code and message are used: the rest may contain signatures. */
export function responseError(about: string, status: number, body: string): S3Error {
  const storeCode = toLine(elementText(body, 'Code') ?? '')
  const reason = [storeCode, toLine(elementText(body, 'Message') ?? '')].filter(
    (part) => part !== '',
  )
  const message = `${about} failed: ${[`status ${status}`, ...reason].join(', ')}`
  return new S3Error(toCode(status, storeCode), message, { storeCode })
}

function toCode(status: number, storeCode: string): S3ErrorCode {
  if (retriedStatuses.includes(status) || retriedCodes.includes(storeCode)) return 'unavailable'
  if (corruptCodes.includes(storeCode)) return 'corrupt'
  // A response to HEAD has no body that says more.
  if (status === 404 && ['', 'NoSuchKey'].includes(storeCode)) return 'absent'
  return 'rejected'
}

function toLine(text: string): string {
  return text.slice(0, maxReasonLength).replace(/[\0-\x1f\x7f]+/g, ' ')
}

const connectionCodes = new Set([
  'EAI_AGAIN',
  'ECONNABORTED',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTDOWN',
  'EHOSTUNREACH',
  'ENETDOWN',
  'ENETUNREACH',
  'ENOTFOUND',
  'EPIPE',
  'EPROTO',
  'ETIMEDOUT',
])
const certificateCodes = /CERT|ERR_TLS|ERR_SSL|UNABLE_TO_/

/** Translates an error of the connection; returns any other, for instance of a local file, as it is. */
export function connectionError(about: string, error: unknown): unknown {
  const code = codeOf(error) ?? ''
  const isCertificate = certificateCodes.test(code)
  const isConnection = code.startsWith('UND_ERR_') || connectionCodes.has(code)
  // undici gives this error a code only sometimes.
  const isGarbled = error instanceof Error && error.name === 'HTTPParserError'
  if (!isCertificate && !isConnection && !isGarbled) return error
  const reason = error instanceof Error && error.message !== '' ? error.message : 'no connection'
  const message = `${about} failed: ${toLine(reason)}${code && ` (${code})`}`
  return new S3Error(isCertificate ? 'rejected' : 'unavailable', message, { cause: error })
}

/** For a `catch`: the Problem of a failed request to the store; rethrows any other error. */
export function asUnavailable(error: unknown): never {
  if (!(error instanceof S3Error)) throw error
  throw new Problem('storage_unavailable', `The object store does not work: ${error.message}`, {
    cause: error,
  })
}
