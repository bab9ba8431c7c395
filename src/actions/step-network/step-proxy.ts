import { createServer, type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Server } from 'node:net'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setImmediate as nextLoop } from 'node:timers/promises'
import type { Outbound } from '#base/outbound/outbound.ts'
import { forwardRequest } from './forward-request.ts'
import { type HostAccess, openSession, type ProxySession } from './proxy-session.ts'
import { type ProxyError, parseConnectTarget, toProxyError } from './proxy-target.ts'

/** An HTTP proxy for the commands of one job, one after another. */
export type StepProxy = Disposable & {
  /** Serves the connections of a command until disposed, which ends them. Between commands there is no service. */
  begin: (access: HostAccess) => Promise<Disposable>
}

export type ProxyLimits = {
  /** Connections of a command at a time. */
  connections: number
  /** Bytes of the headers of a request or response, and how long a client may take to send them. */
  headersMaxBytes: number
  headersTimeoutMs: number
  connectTimeoutMs: number
  /** How long a connection may be without any byte. */
  idleMs: number
}

const defaultLimits: ProxyLimits = {
  connections: 256,
  headersMaxBytes: 16_384,
  headersTimeoutMs: 30_000,
  connectTimeoutMs: 30_000,
  idleMs: 5 * 60_000,
}

type Options = {
  /** Accepts the connections of the job, and of nothing else. */
  listener: Server
  outbound: Pick<Outbound, 'resolve'>
  limits?: ProxyLimits
}

export function createStepProxy({
  listener,
  outbound,
  limits = defaultLimits,
}: Options): StepProxy {
  const { connectTimeoutMs, idleMs } = limits
  const sessions = new WeakMap<Duplex, ProxySession>()
  let current: ProxySession | undefined
  let hasReportedLimit = false
  // Connections that came while there was no service.
  let strays = 0

  const server = createServer({
    maxHeaderSize: limits.headersMaxBytes,
    headersTimeout: limits.headersTimeoutMs,
    connectionsCheckingInterval: Math.min(limits.headersTimeoutMs, 5000),
    // A body may take as long as the step; it must not stop for long.
    requestTimeout: 0,
  })
  server.maxConnections = limits.connections
  // Pipelined requests would open any number of connections to hosts.
  server.maxRequestsPerSocket = 1
  server.timeout = idleMs
  server.on('connection', (socket) => {
    socket.on('error', () => {})
    if (!current) {
      strays += 1
      socket.destroy()
      return
    }
    sessions.set(socket, current)
    current.own(socket)
  })
  server.on('drop', () => {
    if (!current) strays += 1
    if (hasReportedLimit) return
    hasReportedLimit = true
    const line = `network: more than ${limits.connections} connections at a time; further ones are closed`
    current?.log(line).catch(() => {})
  })
  server.on('request', (request, response) => {
    const session = sessions.get(request.socket)
    if (!session) return void request.socket.destroy()
    forwardRequest(request, response, session).catch((error) =>
      refuseRequest(response, toProxyError(error)),
    )
  })
  server.on('connect', (request, socket, head) => {
    const session = sessions.get(socket)
    if (!session) return void socket.destroy()
    openTunnel(request, socket, head, session).catch((error) =>
      refuseTunnel(socket, toProxyError(error)),
    )
  })
  server.listen(listener)
  server.unref()

  /**
   * Closes the connections that an earlier command left in the queue of the listener. A turn of the event loop accepts
   * only one, and the first turn may already be past that.
   */
  async function emptyQueue(): Promise<void> {
    let before: number
    do {
      before = strays
      for (let turn = 0; turn < 2; turn++) await nextLoop()
    } while (strays > before)
  }

  return {
    async begin(access) {
      await emptyQueue()
      const session = openSession({ access, outbound, connectTimeoutMs, idleMs })
      current = session
      hasReportedLimit = false
      return {
        [Symbol.dispose]() {
          if (current === session) current = undefined
          session[Symbol.dispose]()
        },
      }
    },

    [Symbol.dispose]() {
      current?.[Symbol.dispose]()
      current = undefined
      server.close()
      server.closeAllConnections()
    },
  }
}

function refuseRequest(response: ServerResponse, error: ProxyError): void {
  if (response.headersSent || response.destroyed) {
    response.destroy()
    return
  }
  const text = toText(error)
  // The rest of the request is not read.
  response.writeHead(error.status, { ...textHeaders(text), Connection: 'close' })
  response.end(text)
}

function refuseTunnel(socket: Duplex, error: ProxyError): void {
  if (socket.destroyed) return
  const text = toText(error)
  const headers = Object.entries(textHeaders(text)).map(([name, value]) => `${name}: ${value}\r\n`)
  const status = `HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}\r\n`
  socket.end(`${status}${headers.join('')}Connection: close\r\n\r\n${text}`, () => socket.destroy())
}

function textHeaders(text: string) {
  return { 'Content-Type': 'text/plain; charset=utf-8', 'Content-Length': Buffer.byteLength(text) }
}

function toText({ message }: ProxyError): string {
  return `${message}\n`
}

/** Serves CONNECT: bytes in both directions, until both sides have ended. Throws a ProxyError before the first one. */
async function openTunnel(
  { url = '' }: IncomingMessage,
  client: Duplex,
  head: Buffer,
  session: ProxySession,
): Promise<void> {
  const upstream = await session.connect(parseConnectTarget(url))
  client.write('HTTP/1.1 200 Connection established\r\n\r\n')
  if (head.length > 0) upstream.write(head)
  try {
    await Promise.all([pipeline(client, upstream), pipeline(upstream, client)])
  } catch {
    // Either side may end the connection at any time.
  } finally {
    client.destroy()
    upstream.destroy()
  }
}
