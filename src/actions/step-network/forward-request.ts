import { once } from 'node:events'
import { type IncomingMessage, type ServerResponse, request as startRequest } from 'node:http'
import { pipeline } from 'node:stream/promises'
import type { ProxySession } from './proxy-session.ts'
import { formatTarget, parseAbsoluteTarget } from './proxy-target.ts'

// RFC 9110, section 7.6.1, with the header that old clients send to proxies. The Host header is set from the target.
const connectionHeaders = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'proxy-authorization', 'te', 'trailer'],
  ...['transfer-encoding', 'upgrade', 'expect', 'host'],
])
const via = '1.1 svc'

/**
 * Forwards a request for `http://host/path` over a connection of its own: RFC 9110, section 7.6. Redirects are the
 * client's. Throws a ProxyError before the response has begun.
 */
export async function forwardRequest(
  request: IncomingMessage,
  response: ServerResponse,
  session: ProxySession,
): Promise<void> {
  const { target, path } = parseAbsoluteTarget(request.url ?? '')
  const socket = await session.connect(target)
  const isChunked = request.headers['transfer-encoding'] !== undefined
  const upstream = startRequest({
    createConnection: () => socket,
    method: request.method,
    path,
    setHost: false,
    headers: [
      ...['Host', formatTarget(target, 80)],
      ...endToEndHeaders(request),
      // Explicit, because Node would not frame the body of a GET.
      ...(isChunked ? ['Transfer-Encoding', 'chunked'] : []),
      ...['Connection', 'close', 'Via', via],
    ],
  })
  // Also after the response has begun.
  upstream.on('error', () => {})
  try {
    const responded = once(upstream, 'response')
    const sent = pipeline(request, upstream)
    // A host may respond before it has read the whole request, and close the connection.
    sent.catch(() => {})
    await Promise.race([sent.then(() => responded), responded])
    // The event has one argument.
    const [received] = (await responded) as [IncomingMessage]
    response.writeHead(received.statusCode ?? 502, received.statusMessage, [
      ...endToEndHeaders(received),
      ...['Via', via],
    ])
    await pipeline(received, response)
  } finally {
    upstream.destroy()
    socket.destroy()
  }
}

/** The headers that are not about one connection, as a flat list that keeps their order and spelling. */
function endToEndHeaders({ rawHeaders, headers }: IncomingMessage): string[] {
  const named = (headers.connection ?? '').split(',').map((name) => name.trim().toLowerCase())
  const kept: string[] = []
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = rawHeaders.slice(at, at + 2)
    const lower = name.toLowerCase()
    if (!connectionHeaders.has(lower) && !named.includes(lower)) kept.push(name, value)
  }
  return kept
}
