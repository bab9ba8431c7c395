import { once } from 'node:events'
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http'
import { type AddressInfo, createServer as createSocketServer } from 'node:net'
import type { Settings } from '#config/settings.ts'
import { createConnectionErrors, headersMaxBytes } from './connection/client-error.ts'
import { createClientLimits } from './connection/client-limits.ts'
import { closeGently, createOpenRequests } from './connection/connections.ts'
import { createForwarded } from './connection/forwarded.ts'
import { inSequence } from './connection/pipelining.ts'
import { createPipeline, type PipelineOptions } from './serve/pipeline.ts'

const headersTimeoutMs = 15_000
const keepAliveMs = 65_000
// As over SSH.
const probeAfterMs = 30_000
const checkEveryMs = 5000

/** Creates the HTTP server. A request passes the limits of clients, waits for those before it on its connection, and is handled. */
export function createHttpServer(options: PipelineOptions) {
  const { settings } = options
  const openRequests = createOpenRequests()
  const stopping = new AbortController()
  const forwarded = createForwarded(settings.trustedProxies)
  const connectionErrors = createConnectionErrors((url) => pipeline.methodProblem(url))
  const limits = createClientLimits({ ...options, forwarded, respond: connectionErrors.respond })
  const pipeline = createPipeline({
    ...options,
    callerOf: limits.callerOf,
    publicOriginOf: (request) =>
      settings.baseUrl === undefined ? forwarded.originOf(request) : undefined,
    openRequests,
    stopping: stopping.signal,
  })
  const server = limits.guard(
    toServer(
      inSequence(
        limits.limited((request, response) => {
          if (!connectionErrors.rejectsHost(request)) pipeline.handle(request, response)
        }),
      ),
    ),
  )
  server.on('connect', connectionErrors.onConnect).on('clientError', connectionErrors.onClientError)

  const runnerListener = createSocketServer({ allowHalfOpen: true, noDelay: true }, (socket) =>
    server.emit('connection', socket),
  )

  return {
    /** Starts listening, and returns the address as a URL. */
    listen: () => listenAt(server, settings),

    /** Also listens on a loopback port for the server's own runner, and returns its address as a URL. */
    async listenForRunner(): Promise<string> {
      runnerListener.listen(0, '127.0.0.1')
      await once(runnerListener, 'listening')
      return `http://127.0.0.1:${(runnerListener.address() as AddressInfo).port}`
    },

    /**
     * Stops accepting connections, but those of the server's own runner until `runnerEnded` resolves, and waits for
     * running requests, which are cut off after the timeout.
     */
    async stop(timeoutMs: number, runnerEnded?: Promise<void>): Promise<void> {
      stopping.abort()
      using _cutOff = setTimeout(() => {
        openRequests.abortAll()
        server.closeAllConnections()
      }, timeoutMs)
      // Its only error is that the server is closed already.
      const closed = new Promise((resolve) => server.close(resolve))
      await Promise.all([closed, runnerEnded])
      runnerListener.close()
    },
  }
}

async function listenAt(
  server: Server,
  { host, port: wanted }: Pick<Settings, 'host' | 'port'>,
): Promise<string> {
  try {
    await once(server.listen({ host, port: wanted }), 'listening')
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    const reason = code === 'EADDRINUSE' ? 'the port is in use' : message
    throw new Error(
      `SVC_HOST, SVC_PORT: cannot listen on ${host}, port ${wanted}: ${reason}; choose others.`,
      { cause: error },
    )
  }
  // A listening TCP server has an address, which is not a path.
  const { address, family, port } = server.address() as AddressInfo
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}

function toServer(listener: RequestListener): Server {
  const server = createServer(
    {
      maxHeaderSize: headersMaxBytes,
      connectionsCheckingInterval: checkEveryMs,
      headersTimeout: headersTimeoutMs,
      keepAliveTimeout: keepAliveMs,
      // TCP: finds clients that are gone while a request waits for them.
      keepAlive: true,
      keepAliveInitialDelay: probeAfterMs,
      requireHostHeader: false, // Rejected with a problem: see `rejectsHost`.
      requestTimeout: 0, // A push may take as long as it makes progress; JSON bodies have a limit of their own.
    },
    listener,
  )
  closeGently(server)
  const handle = (request: IncomingMessage, response: ServerResponse) => {
    server.emit('request', request, response)
  }
  // Unknown expectations may be ignored: RFC 9110, section 10.1.1.
  return server.on('checkContinue', handle).on('checkExpectation', handle)
}
