import { printable } from '#base/format.ts'
import { splitPort, toComparable } from '#base/outbound/host-rules.ts'
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

/** The destination of a request: a lower-case name or an IP address without brackets, and a port. */
export type ProxyTarget = { host: string; port: number }

const shownMaxLength = 100

/** The destination of a CONNECT request: RFC 9110, section 9.3.6. */
export function parseConnectTarget(text: string): ProxyTarget {
  const target = toTarget(text, undefined)
  if (target) return target
  throw new ProxyError(400, `${shown(text)} is not a host and a port, as CONNECT takes.`)
}

/** The destination of a request in absolute form, and the rest of its address: RFC 9112, section 3.2.2. */
export function parseAbsoluteTarget(text: string): { target: ProxyTarget; path: string } {
  const [, scheme = '', authority = '', rest = ''] =
    /^([a-z][a-z\d+.-]*):\/\/([^/?#]*)([^#]*)/i.exec(text) ?? []
  if (scheme === '') {
    throw new ProxyError(
      400,
      'This is a proxy: it takes CONNECT, and requests for http://host/path.',
    )
  }
  if (scheme.toLowerCase() !== 'http') {
    throw new ProxyError(
      400,
      `The scheme ${scheme} is not supported: use CONNECT for all but http.`,
    )
  }
  const target = toTarget(authority, 80)
  if (!target) throw new ProxyError(400, `${shown(authority)} is not a host.`)
  return { target, path: rest.startsWith('/') ? rest : `/${rest}` }
}

/** A destination as it is written in an address or a Host header. */
export function formatTarget({ host, port }: ProxyTarget, defaultPort?: number): string {
  const name = host.includes(':') ? `[${host}]` : host
  return port === defaultPort ? name : `${name}:${port}`
}

function toTarget(text: string, defaultPort: number | undefined): ProxyTarget | undefined {
  const authority = splitPort(text)
  const host = authority && toComparable(authority.host)
  const port = authority?.port ?? defaultPort
  return host === undefined || port === undefined ? undefined : { host, port }
}

function shown(text: string): string {
  return JSON.stringify(printable(text.slice(0, shownMaxLength)))
}
