import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import type { Access, AccessWatch } from '../access/access-watch.ts'
import type { Principal } from '../access/principal.ts'
import type { Clock } from '../base/clock.ts'
import { newId } from '../base/ids.ts'
import type { Log } from '../base/log.ts'
import { Problem } from '../base/problem.ts'
import type { Settings } from '../config/settings.ts'
import { type Caller, createAdmission } from './admission.ts'
import { challenge } from './authentication.ts'
import { createClientAddress } from './client-address.ts'
import { createConnectionErrors, headersMaxBytes } from './client-error.ts'
import {
  closeAfterReading,
  closeGently,
  createOpenRequests,
  discardArrived,
  discardRest,
  expectsContinue,
  isUnread,
  mustClose,
} from './connections.ts'
import { commonHeaders } from './headers.ts'
import { assertDeclared, readJsonBody } from './json-body.ts'
import { methodProblem, methodsAt } from './methods.ts'
import { inSequence } from './pipelining.ts'
import {
  problemContentType,
  problemHeaders,
  statusOf,
  toProblemDocument,
} from './problem-response.ts'
import { type CompletedRequest, createRequestLog } from './request-log.ts'
import { type JsonRoute, jsonContentType, type PublicRoute, type Route } from './route.ts'
import { patternOf, precedes } from './route-pattern.ts'
import { createStreams } from './streams.ts'
import { assertParameters, checkBody, checkQuery } from './validation.ts'
import { ResponseWatch } from './watch-response.ts'

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
  /** Called when a response has been sent, or its client has disconnected. */
  onCompleted?: (completed: CompletedRequest) => void
  clock: Clock
  log: Log
}

// A DELETE frees space, so it needs none.
const writing = new Set(['POST', 'PUT', 'PATCH'])
const headersTimeoutMs = 15_000
const keepAliveMs = 65_000
const checkEveryMs = 5000
const pathMaxLength = headersMaxBytes

/** Creates the HTTP server. Each request is checked for token, permission, resource, query and body, in this order. */
export function createHttpServer(options: Options) {
  const { settings, routes, authenticate, accessWatch, requireSpace, clock } = options
  const admit = createAdmission({ settings, authenticate, clock })
  const bodyLimits = {
    maxBytes: settings.jsonBodyMaxBytes,
    timeoutMs: settings.bodySeconds * 1000,
  }
  const openRequests = createOpenRequests()
  const stopping = new AbortController()
  const requestLog = createRequestLog(options)
  const connectionErrors = createConnectionErrors(routes)
  const clientAddress = createClientAddress(settings.trustedProxies)
  const callers = new WeakMap<IncomingMessage, Caller>()
  const serveStream = createStreams({
    routes,
    admit,
    clientAddress,
    openRequests,
    accessWatch,
    requestLog,
  })

  const app = fastify({
    serverFactory: (listener) =>
      toServer(
        inSequence((request, response) => {
          if (connectionErrors.rejectsHost(request)) return
          if (!serveStream(request, response)) listener(request, response)
        }),
      ).on('connect', connectionErrors.onConnect),
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    routerOptions: { maxParamLength: pathMaxLength, ignoreDuplicateSlashes: false },
    genReqId: () => newId(),
    clientErrorHandler: connectionErrors.onClientError,
    frameworkErrors: (error, request, reply) => sendProblem(request, reply, fromFastify(error)),
  })

  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id)
    for (const [name, value] of commonHeaders) reply.header(name, value)
    // Before Fastify checks methods and content types itself.
    if (request.is404) return respondToUnknown(request, reply)
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
    requestLog.record({
      requestId: request.id,
      url: request.url,
      ...callerOf(request),
      isPolling: routeOf(request)?.isPolling ?? false,
      method: request.method,
      route: routeOf(request)?.path ?? 'other',
      status: reply.statusCode,
      seconds: reply.elapsedTime / 1000,
    })
  })
  app.setErrorHandler((error, request, reply) => sendProblem(request, reply, fromFastify(error)))

  for (const route of routes) {
    if (route.kind === 'stream') continue
    app.route({
      method: route.method,
      url: toFastifyPath(route.path),
      exposeHeadRoute: true,
      config: { route },
      // Routes run in the first hook, before the body is read: a forbidden caller gets no validation errors.
      onRequest: handlerOf(route),
      handler: () => {},
    })
  }

  function handlerOf(route: JsonRoute | PublicRoute) {
    // The router matches the method first, so GET /repos/import would match the repository "import".
    const others = routes.filter((other) => precedes(other, route))
    const before = [...new Set(others.map(({ path }) => path))].map(patternOf)
    return async (request: FastifyRequest, reply: FastifyReply) => {
      const path = request.url.split('?', 1)[0] ?? ''
      if (before.some((pattern) => pattern.test(path))) return respondToUnknown(request, reply)
      return route.kind === 'json'
        ? serveJson(route, request, reply)
        : servePublic(route, request, reply)
    }
  }

  async function serveJson(route: JsonRoute, request: FastifyRequest, reply: FastifyReply) {
    const { permission, find } = route
    const params = paramsOf(route, request)
    const admitted = await admit(request.raw, callerOf(request), {
      scheme: 'bearer',
      permission: () => permission,
      find,
      params,
      isRateLimited: true,
    })
    const { principal, found } = admitted
    // The results of runs are accepted even when the disk is nearly full.
    if (writing.has(route.method) && permission !== 'run') await requireSpace()
    const query = checkQuery(route.query, queryOf(request))
    const body = checkBody(route.body, await readBody(request, reply))
    reply.status(route.status).type(route.produces)
    let created: AbortController | undefined
    const abortController = () => {
      created ??= openRequests.controllerOf(reply.raw)
      return created
    }
    // `find` of a long-lived route returns a repository or nothing.
    const repository = found as { id: string } | undefined
    const watch = route.isLongLived
      ? new ResponseWatch(reply.raw, {
          accessWatch,
          access: { principal, permission: admitted.permission, repository },
          abortController: abortController(),
        })
      : undefined
    const context = {
      principal,
      params,
      query,
      body,
      found,
      url: request.url,
      header: (name: string) => request.headers[name]?.toString(),
      setHeader: (name: string, value: string) => void reply.header(name, value),
      setStatus: (status: number) => void reply.status(status),
      setType: (type: string) => void reply.type(type),
      clientSignal: () => abortController().signal,
      waitSignal: () => {
        assertLongLived(route)
        return AbortSignal.any([stopping.signal, abortController().signal])
      },
      requireAccess: (access: Access) => void watch?.access.push(access),
    } satisfies Parameters<JsonRoute['handle']>[0]
    const handled = route.handle(context)
    const result = await (watch ? watch.guard(handled) : handled)
    if (result instanceof Readable) assertLongLived(route)
    return sendResult(route, { request, reply, result })
  }

  function callerOf({ raw }: FastifyRequest): Caller {
    const known = callers.get(raw)
    if (known) return known
    const caller = { address: clientAddress(raw), principal: undefined }
    callers.set(raw, caller)
    return caller
  }

  async function readBody(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    // Before `100 Continue`, so that a body that is too large is never sent.
    assertDeclared(request.raw, bodyLimits)
    if (request.method === 'GET' || request.method === 'HEAD') return undefined
    if (expectsContinue(request.raw)) reply.raw.writeContinue()
    return readJsonBody(request.raw, bodyLimits)
  }

  async function servePublic(route: PublicRoute, request: FastifyRequest, reply: FastifyReply) {
    assertParameters(queryOf(request))
    const result = await route.handle()
    const content = typeof result === 'string' ? result : `${JSON.stringify(result)}\n`
    return reply.type(route.produces).send(content)
  }

  async function sendProblem(request: FastifyRequest, reply: FastifyReply, error: unknown) {
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

  function respondToUnknown(request: FastifyRequest, reply: FastifyReply) {
    const allow = methodsAt(routes, request.url)
    if (allow.length === 0 || request.method !== 'OPTIONS') throw methodProblem(routes, request.url)
    return reply.status(204).header('allow', allow.join(', ')).send()
  }

  return {
    /** Starts listening, and returns the address as a URL. */
    async listen(): Promise<string> {
      const { host, port: wanted } = settings
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
    },

    /** Stops accepting connections and waits for running requests, which are cut off after the timeout. */
    async stop(timeoutMs: number): Promise<void> {
      stopping.abort()
      using _cutOff = setTimeout(() => {
        openRequests.abortAll()
        app.server.closeAllConnections()
      }, timeoutMs)
      await app.close()
    },
  }
}

function toServer(listener: RequestListener): Server {
  const server = createServer(
    {
      maxHeaderSize: headersMaxBytes,
      connectionsCheckingInterval: checkEveryMs,
      headersTimeout: headersTimeoutMs,
      keepAliveTimeout: keepAliveMs,
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

function sendResult(
  route: JsonRoute,
  { request, reply, result }: { request: FastifyRequest; reply: FastifyReply; result: unknown },
) {
  if (route.reply === undefined || reply.statusCode === 204)
    return reply.removeHeader('content-type').send()
  if (result instanceof Readable && request.method === 'HEAD') {
    // The stream would not be read, and may be endless.
    result.destroy()
    return reply.send()
  }
  const isJson = route.produces === jsonContentType && !(result instanceof Readable)
  return reply.send(isJson ? `${JSON.stringify(result)}\n` : result)
}

function assertLongLived({ method, path, isLongLived }: JsonRoute): void {
  if (!isLongLived) throw new Error(`${method} ${path} is not declared as long-lived`)
}

function routeOf(request: FastifyRequest): Route | undefined {
  // Unset for unknown addresses.
  return (request.routeOptions.config as { route?: Route } | undefined)?.route
}

function queryOf(request: FastifyRequest): URLSearchParams {
  const start = request.url.indexOf('?')
  return new URLSearchParams(start === -1 ? '' : request.url.slice(start + 1))
}

function toFastifyPath(path: string): string {
  return path.replace(/:\w+\*$/, '*')
}

function paramsOf(route: Route, request: FastifyRequest): Record<string, string> {
  // The router sets each parameter to a string.
  const { '*': rest, ...params } = request.params as Record<string, string>
  const [, name] = /:(\w+)\*$/.exec(route.path) ?? []
  return name === undefined ? params : { ...params, [name]: rest ?? '' }
}

function fromFastify(error: unknown): unknown {
  if (error instanceof Error && 'code' in error && error.code === 'FST_ERR_BAD_URL') {
    return new Problem('malformed_request', 'The address has a malformed percent-encoding.')
  }
  return error
}
