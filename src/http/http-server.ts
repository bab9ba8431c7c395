import { once } from 'node:events'
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http'
import { type AddressInfo, createServer as createSocketServer } from 'node:net'
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { AccessWatch } from '#access/access-watch.ts'
import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import { newId } from '#base/ids.ts'
import type { Log } from '#base/log.ts'
import { Problem } from '#base/problem.ts'
import type { Settings } from '#config/settings.ts'
import { acceptsGzip } from './accept.ts'
import { createConnectionErrors, headersMaxBytes } from './connection/client-error.ts'
import { type Caller, type ClientLimits, createClientLimits } from './connection/client-limits.ts'
import {
  closeAfterReading,
  closeGently,
  createOpenRequests,
  discardArrived,
  discardRest,
  isUnread,
  mustClose,
} from './connection/connections.ts'
import { createForwarded } from './connection/forwarded.ts'
import { inSequence } from './connection/pipelining.ts'
import { commonHeaders } from './headers.ts'
import {
  problemContentType,
  problemHeaders,
  statusOf,
  toProblemDocument,
} from './problem-response.ts'
import type { JsonRoute, PublicRoute, Route } from './route.ts'
import { createAdmission } from './serve/admission.ts'
import { challenge } from './serve/authentication.ts'
import { compressFromChars, createTextCompression } from './serve/compress-text.ts'
import { createJsonCalls } from './serve/json-calls.ts'
import { createJsonRoutes } from './serve/json-routes.ts'
import { methodProblem, methodsAt } from './serve/methods.ts'
import { createPageRequests, type LoadPages } from './serve/page-requests.ts'
import { type CompletedRequest, createRequestLog } from './serve/request-log.ts'
import { splitTarget } from './serve/request-target.ts'
import { createRightsCheck } from './serve/rights-check.ts'
import { type Address, createRouteTable } from './serve/route-table.ts'
import { createStreams } from './serve/streams.ts'
import { createSubcalls } from './serve/subcalls.ts'
import { assertParameters, queryOf } from './validation.ts'

type Options = {
  settings: Settings
  routes: Route[]
  authenticate: (token: string) => Promise<Principal | undefined>
  /** Ends long-lived responses when their callers lose access. */
  accessWatch: AccessWatch
  /** Throws `storage_full` when nothing may be written. */
  requireSpace: () => Promise<void>
  /** Throws the Problem of an unavailable part of the service. */
  requireParts: () => Promise<void>
  /** Loads the server of pages when the first is requested. */
  loadPages: LoadPages
  /** Called when a response has been sent, or its client has disconnected. */
  onCompleted?: (completed: CompletedRequest) => void
  clock: Clock
  log: Log
}

const headersTimeoutMs = 15_000
const keepAliveMs = 65_000
// As over SSH.
const probeAfterMs = 30_000
const checkEveryMs = 5000
const pathMaxLength = headersMaxBytes

/** Creates the HTTP server. Each request is checked for token, permission, resource, query and body, in this order. */
export function createHttpServer(options: Options) {
  const { settings, routes, authenticate, accessWatch, requireSpace, clock } = options
  const {
    admit,
    authenticate: identify,
    countInvalid,
  } = createAdmission({ settings, authenticate, clock })
  const openRequests = createOpenRequests()
  const stopping = new AbortController()
  const requestLog = createRequestLog(options)
  const forwarded = createForwarded(settings.trustedProxies)
  const callers = new WeakMap<IncomingMessage, Caller>()
  const served = new WeakMap<FastifyRequest, JsonRoute | PublicRoute>()
  const perform = createJsonCalls({
    routes,
    requestLog,
    admit,
    openRequests,
    accessWatch,
    requireSpace,
    stopping: stopping.signal,
  })
  const serveJson = createJsonRoutes({ settings, openRequests, perform })
  const findRoutes = createRouteTable(routes)
  const compress = createTextCompression()
  const connectionErrors = createConnectionErrors(
    async (url) =>
      (await pageRequests.methodProblem(url)) ??
      methodProblem(findRoutes(splitTarget({ url }).path)),
  )
  const limits = createClientLimits({ ...options, forwarded, respond: connectionErrors.respond })
  const pageRequests = createPageRequests({
    load: options.loadPages,
    isOn: settings.pages,
    call: createSubcalls({ routes, requestLog, perform }),
    may: createRightsCheck({ routes, admit }),
    authenticate: identify,
    countInvalid,
    callerOf: limits.callerOf,
    publicOriginOf,
    openRequests,
    requestLog,
  })
  const serveStream = createStreams({
    findRoutes,
    admit,
    callerOf: limits.callerOf,
    openRequests,
    accessWatch,
    requestLog,
  })

  const app = fastify({
    serverFactory: (listener) =>
      toServer(
        limits,
        inSequence(
          limits.limited((request, response) => {
            if (connectionErrors.rejectsHost(request)) return
            if (serveStream(request, response) || pageRequests.serve(request, response)) return
            listener(request, response)
          }),
        ),
      ).on('connect', connectionErrors.onConnect),
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    routerOptions: { maxParamLength: pathMaxLength, ignoreDuplicateSlashes: false },
    genReqId: () => newId(),
    clientErrorHandler: connectionErrors.onClientError,
    frameworkErrors: (error, request, reply) => sendProblem(request, reply, fromFastify(error)),
  })

  const runnerListener = createSocketServer({ allowHalfOpen: true, noDelay: true }, (socket) =>
    app.server.emit('connection', socket),
  )

  // In a hook, since Fastify would check content types and read the body before a handler: a forbidden caller gets no
  // validation errors.
  app.addHook('onRequest', async (request, reply) => {
    setCommonHeaders(request, reply)
    const address = findRoutes(splitTarget(request.raw).path)
    const route = address?.byMethod.get(request.method === 'HEAD' ? 'GET' : request.method)
    if (!address || !route || route.kind === 'stream')
      return respondToUnknown(address, request, reply)
    served.set(request, route)
    if (route.kind === 'public') return servePublic(route, request, reply)
    return serveJson(route, {
      request,
      reply,
      params: address.params,
      caller: callerOf(request),
      publicOrigin: () => publicOriginOf(request.raw),
    })
  })
  app.addHook('onSend', async (request, reply) => {
    if (isUnread(request.raw)) {
      discardArrived(request.raw)
      reply.raw.on('close', () => discardRest(request.raw))
    }
    if (!mustClose(request.raw, reply.statusCode)) return
    reply.header('connection', 'close')
    closeAfterReading(request.raw)
  })
  app.addHook('onResponse', async (request, reply) => {
    const { address, principal } = callerOf(request)
    requestLog.record({
      requestId: request.id,
      url: request.url,
      address,
      principal,
      isPolling: served.get(request)?.isPolling ?? false,
      method: request.method,
      route: served.get(request)?.path ?? 'other',
      status: reply.statusCode,
      seconds: reply.elapsedTime / 1000,
    })
  })
  app.setErrorHandler((error, request, reply) => sendProblem(request, reply, fromFastify(error)))

  // The hook has responded: see above.
  app.route({
    method: [...new Set(routes.map(({ method }) => method))],
    url: '*',
    exposeHeadRoute: true,
    handler: () => {},
  })

  function callerOf({ raw }: FastifyRequest): Caller {
    const known = callers.get(raw)
    if (known) return known
    const caller = limits.callerOf(raw)
    callers.set(raw, caller)
    return caller
  }

  function publicOriginOf(request: IncomingMessage): string | undefined {
    return settings.baseUrl === undefined ? forwarded.originOf(request) : undefined
  }

  async function servePublic(route: PublicRoute, request: FastifyRequest, reply: FastifyReply) {
    assertParameters(queryOf(request))
    const result = await route.handle({ publicOrigin: () => publicOriginOf(request.raw) })
    const content = typeof result === 'string' ? result : `${JSON.stringify(result)}\n`
    reply.headers(route.headers ?? {}).type(route.produces)
    if (content.length < compressFromChars) return reply.send(content)
    reply.header('vary', 'accept-encoding')
    if (!acceptsGzip(request)) return reply.send(content)
    return reply.header('content-encoding', 'gzip').send(await compress(route.path, content))
  }

  async function sendProblem(request: FastifyRequest, reply: FastifyReply, error: unknown) {
    // Not set for addresses that the router rejects.
    setCommonHeaders(request, reply)
    const problem = await requestLog.problemOf(error, request.id)
    const status = statusOf(problem)
    if (reply.raw.headersSent || reply.raw.destroyed) {
      reply.hijack()
      reply.raw.destroy()
      return
    }
    if (status === 401) reply.header('www-authenticate', challenge('bearer'))
    reply.status(status).headers(problemHeaders(problem))
    // As a Buffer, since Fastify would add a charset to the content type of a string.
    const document = Buffer.from(`${JSON.stringify(toProblemDocument(problem))}\n`)
    return reply.type(problemContentType).send(document)
  }

  function respondToUnknown(
    address: Address<Route> | undefined,
    request: FastifyRequest,
    reply: FastifyReply,
  ) {
    const allow = methodsAt(address)
    if (allow.length === 0 || request.method !== 'OPTIONS') throw methodProblem(address)
    return reply.status(204).header('allow', allow.join(', ')).send()
  }

  return {
    /** Starts listening, and returns the address as a URL. */
    listen: () => listenAt(app, settings),

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
        app.server.closeAllConnections()
      }, timeoutMs)
      await Promise.all([app.close(), runnerEnded])
      runnerListener.close()
    },
  }
}

async function listenAt(
  app: FastifyInstance,
  { host, port: wanted }: Pick<Settings, 'host' | 'port'>,
): Promise<string> {
  await app.listen({ host, port: wanted }).catch((error) => {
    const reason = error.code === 'EADDRINUSE' ? 'the port is in use' : error.message
    throw new Error(
      `SVC_HOST, SVC_PORT: cannot listen on ${host}, port ${wanted}: ${reason}; choose others.`,
      { cause: error },
    )
  })
  // A listening TCP server has an address, which is not a path.
  const { address, family, port } = app.server.address() as AddressInfo
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}

function toServer(limits: ClientLimits, listener: RequestListener): Server {
  const server = limits.guard(
    createServer(
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
    ),
  )
  closeGently(server)
  const handle = (request: IncomingMessage, response: ServerResponse) => {
    server.emit('request', request, response)
  }
  // Unknown expectations may be ignored: RFC 9110, section 10.1.1.
  return server.on('checkContinue', handle).on('checkExpectation', handle)
}

function setCommonHeaders(request: FastifyRequest, reply: FastifyReply): void {
  reply.header('x-request-id', request.id)
  for (const [name, value] of commonHeaders) reply.header(name, value)
}

function fromFastify(error: unknown): unknown {
  if (error instanceof Error && 'code' in error && error.code === 'FST_ERR_BAD_URL') {
    return new Problem('malformed_request', 'The address has a malformed percent-encoding.')
  }
  return error
}
