import { ConnectTimeoutError } from '#base/outbound/pinned-connect.ts'
import { Problem } from '#base/problem.ts'

/** A request that the proxy does not serve: its HTTP status, and a sentence for the client and the log of the step. */
export class ProxyError extends Error {
  override readonly name = 'ProxyError'
  readonly status: 400 | 403 | 502 | 504

  constructor(status: ProxyError['status'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.status = status
  }
}

const reasons: Record<string, string> = {
  ECONNREFUSED: 'The connection was refused.',
  ECONNRESET: 'The connection was reset.',
  EPIPE: 'The connection was reset.',
  EHOSTUNREACH: 'There is no route to the host.',
  ENETUNREACH: 'There is no route to its network.',
  ETIMEDOUT: 'The connection timed out.',
}

/** Translates the error of a connection. An unknown one shows its code only, because a message may name inner addresses. */
export function toProxyError(error: unknown): ProxyError {
  if (error instanceof ProxyError) return error
  if (error instanceof Problem) {
    const status = error.code === 'outbound_forbidden' ? 403 : 502
    return new ProxyError(status, error.message, { cause: error })
  }
  if (error instanceof ConnectTimeoutError) {
    return new ProxyError(504, 'The connection timed out.', { cause: error })
  }
  // When all addresses of a host fail, Node throws an AggregateError with an error for each.
  const first = error instanceof AggregateError ? error.errors[0] : error
  const code = first instanceof Error && 'code' in first ? String(first.code) : 'unknown error'
  const message = code.startsWith('HPE_')
    ? 'The host does not speak HTTP, or its headers are too large.'
    : (reasons[code] ?? `The connection failed (${code}).`)
  return new ProxyError(502, message, { cause: error })
}
