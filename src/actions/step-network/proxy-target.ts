import { printable } from '#base/format.ts'
import { splitPort, toComparable } from '#base/outbound/host-rules.ts'
import { ProxyError } from './proxy-error.ts'

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
