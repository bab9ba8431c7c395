import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { AccessWatch } from '#access/access-watch.ts'
import { repositoryNameIn } from '#access/names.ts'
import type { Authenticate } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import { newId } from '#base/ids.ts'
import type { Log } from '#base/log.ts'
import { Problem } from '#base/problem.ts'
import type { Settings } from '#config/settings.ts'
import type { ClientLimits } from '../connection/client-limits.ts'
import {
  discardRest,
  endUnread,
  expectsContinue,
  type OpenRequests,
} from '../connection/connections.ts'
import { acceptsGzip, commonHeaders } from '../headers.ts'
import {
  lfsContentType,
  problemContentType,
  problemHeaders,
  statusOf,
  toLfsError,
  toProblemDocument,
} from '../problem-response.ts'
import type { PublicRoute, Route } from '../route.ts'
import { assertParameters } from '../validation.ts'
import { type Admission, createAdmission } from './admission.ts'
import { challenge } from './authentication.ts'
import type { Exchange } from './exchange.ts'
import { readFormBody } from './json-body.ts'
import { createOperations } from './json-operations.ts'
import { createServeJson } from './json-routes.ts'
import { createPageRequests, type PageServer } from './page-requests.ts'
import { type CompletedRequest, createRequestLog } from './request-log.ts'
import {
  createRouteTable,
  isMalformed,
  methodsAt,
  problemOfMethod,
  type RouteMatch,
  splitTarget,
} from './route-table.ts'
import { createServeStream } from './streams.ts'

export type PipelineOptions = {
  settings: Settings
  routes: Route[]
  authenticate: Authenticate
  /** Ends long-lived responses when their callers lose access. */
  accessWatch: AccessWatch
  /** Throws `storage_full` when nothing may be written. */
  requireSpace: () => Promise<void>
  /** Throws the Problem of the database or the store of repositories when it is unavailable. */
  requireParts: () => Promise<void>
  /** Loads the server of pages when the first is requested. */
  loadPages: () => Promise<PageServer>
  /** Called when a response has been sent, or its client has disconnected. */
  onCompleted?: (completed: CompletedRequest) => void
  clock: Clock
  log: Log
}

type Dependencies = PipelineOptions & {
  callerOf: ClientLimits['callerOf']
  /** The origin that the client called, if a trusted proxy says so and there is no SVC_BASE_URL. */
  publicOriginOf: (request: IncomingMessage) => string | undefined
  openRequests: OpenRequests
  /** Aborted when the server stops. */
  stopping: AbortSignal
}

type ProblemFormat = 'json' | 'git' | 'git-lfs'

/** Creates what handles every request: of Git, of pages, and of the API. */
export function createPipeline(dependencies: Dependencies) {
  const { settings, routes, callerOf, publicOriginOf, openRequests, stopping } = dependencies
  const admission = createAdmission(dependencies)
  const requestLog = createRequestLog(dependencies)
  const operations = createOperations({ ...dependencies, ...admission, requestLog })
  const findRoutes = createRouteTable(routes)
  const serveStream = createServeStream({ ...dependencies, ...admission })
  const serveJson = createServeJson({ ...dependencies, ...operations })
  const servePublic = createServePublic({ ...settings, ...admission })
  const pages = createPageRequests({
    load: dependencies.loadPages,
    isOn: settings.pages,
    operations,
    admission,
    openRequests,
    requestLog,
  })

  const handle: RequestListener = (request, response) => {
    const { path, query } = splitTarget(request)
    const match = findRoutes(path)
    const route = routeAt(match, request.method)
    const misplaced = route ? undefined : misplacedGitRequest(path, query)
    const isPage = !route && !misplaced && pages.isPage(path)
    const requestId = newId()
    const caller = callerOf(request)
    const startedAt = performance.now()
    const exchange: Exchange = {
      request,
      response,
      requestId,
      path,
      query: new URLSearchParams(query),
      params: match?.params ?? {},
      caller,
      publicOrigin: () => publicOriginOf(request),
    }
    let template = route?.path ?? (isPage ? 'page' : 'other')

    response.setHeader('x-request-id', requestId)
    // Pages set their own.
    if (!isPage) for (const [name, value] of commonHeaders) response.setHeader(name, value)
    if (stopping.aborted) response.setHeader('connection', 'close')
    response.on('close', () => {
      if (response.writableFinished) discardRest(request)
      requestLog.record({
        requestId,
        url: request.url ?? '',
        method: request.method ?? '',
        route: template,
        status: response.statusCode,
        seconds: (performance.now() - startedAt) / 1000,
        address: caller.address,
        principal: caller.principal,
        isPolling: route?.isPolling ?? false,
      })
    })

    async function serve(): Promise<void> {
      if (misplaced) throw misplaced
      if (isPage) {
        template = await pages.serve(exchange)
        return
      }
      switch (route?.kind) {
        case 'stream':
          return serveStream(route, exchange)
        case 'json':
          return serveJson(route, exchange)
        case 'public':
          return servePublic(route, exchange)
        case undefined:
          return respondToUnknown(match, exchange)
      }
    }

    serve().catch(async (error) => {
      const problem = await requestLog.toLoggedProblem(error, requestId)
      // Pages show their own Problems; what comes here is a failure of that.
      if (isPage) response.destroy()
      else if (misplaced) sendProblem('git', exchange, problem)
      else sendProblem(formatOf(route), exchange, problem)
    })
  }

  return {
    handle,

    /** The Problem of a request that Node passes to no handler because of its method. */
    async methodProblem(url: string): Promise<Problem> {
      const { path } = splitTarget({ url })
      return (await pages.methodProblem(path)) ?? problemOfMethod(findRoutes(path))
    },
  }
}

function routeAt(match: RouteMatch<Route> | undefined, method = ''): Route | undefined {
  const route = match?.byMethod.get(method === 'HEAD' ? 'GET' : method)
  // Git sends no HEAD.
  return method === 'HEAD' && route?.kind === 'stream' ? undefined : route
}

function respondToUnknown(match: RouteMatch<Route> | undefined, exchange: Exchange): void {
  const { request, response, path } = exchange
  if (isMalformed(path))
    throw new Problem('malformed_request', 'The address has a malformed percent-encoding.')
  if (!match || request.method !== 'OPTIONS') throw problemOfMethod(match)
  endUnread(request, response, 204)
  response.writeHead(204, { allow: methodsAt(match).join(', ') }).end()
}

const listing = '/info/refs'

/**
 * The Problem of a Git client that asks for `/name.git`, where other hosts have repositories. At `/r/name`, the pages redirect
 * it to the repository.
 */
function misplacedGitRequest(path: string, query: string): Problem | undefined {
  if (!path.endsWith(listing) || path.startsWith('/r/') || !query.includes('service=git-'))
    return undefined
  const name = repositoryNameIn(path.slice(0, -listing.length))
  if (name === undefined) return undefined
  const detail = `Git finds repositories of this server at /repos/NAME.git or /repos/NAMESPACE/NAME.git: the path of this one is /repos/${name}.git.`
  return new Problem('route_not_found', detail)
}

const gzipAsync = promisify(gzip)
/** Shorter texts are sent as they are. */
const compressFromChars = 1024

const formMaxBytes = 64 * 1024

type PublicParts = Pick<Settings, 'bodySeconds'> & Pick<Admission, 'limitUnknown' | 'countInvalid'>

function createServePublic({ bodySeconds, limitUnknown, countInvalid }: PublicParts) {
  // The last text of each path, since they rarely change.
  const compressed = new Map<string, { text: string; bytes: Promise<Buffer> }>()

  function compress(path: string, text: string): Promise<Buffer> {
    const last = compressed.get(path)
    if (last?.text === text) return last.bytes
    const bytes = gzipAsync(text)
    compressed.set(path, { text, bytes })
    return bytes
  }

  return async (route: PublicRoute, exchange: Exchange): Promise<void> => {
    const { request, response, query, publicOrigin, caller } = exchange
    const { address } = caller
    assertParameters(query)
    let fields = new URLSearchParams()
    if (route.form) {
      limitUnknown(address)
      const limits = { maxBytes: formMaxBytes, timeoutMs: bodySeconds * 1000 }
      if (expectsContinue(request)) response.writeContinue()
      fields = await readFormBody(request, limits)
    }
    const handled = async () =>
      route.handle({
        publicOrigin,
        origin: { via: 'api', address },
        host: request.headers.host ?? '',
        fields,
      })
    const result = await handled().catch((error) => {
      const isInvalid = error instanceof Problem && error.code === 'exchange_refused'
      throw isInvalid ? countInvalid(address, error) : error
    })
    const text = typeof result === 'string' ? result : `${JSON.stringify(result)}\n`
    const isLong = text.length >= compressFromChars
    const isCompressed = isLong && acceptsGzip(request)
    const content = isCompressed ? await compress(route.path, text) : text
    response.setHeaders(new Map(Object.entries(route.headers ?? {})))
    if (isLong) response.setHeader('vary', 'accept-encoding')
    if (isCompressed) response.setHeader('content-encoding', 'gzip')
    send({ request, response }, 200, { type: route.produces, content })
  }
}

function formatOf(route: Route | undefined): ProblemFormat {
  return route?.kind === 'stream' ? (route.problemFormat ?? 'git') : 'json'
}

function sendProblem(
  format: ProblemFormat,
  { request, response }: Pick<Exchange, 'request' | 'response'>,
  problem: Problem,
): void {
  if (response.headersSent || response.destroyed) {
    response.destroy()
    return
  }
  const status = statusOf(problem)
  const scheme = format === 'json' ? 'bearer' : 'basic-or-bearer'
  if (status === 401) response.setHeader('www-authenticate', challenge(scheme))
  response.setHeaders(new Map(Object.entries(problemHeaders(problem))))
  send({ request, response }, status, toContent(format, problem))
}

function toContent(format: ProblemFormat, problem: Problem): { type: string; content: string } {
  switch (format) {
    case 'json':
      return {
        type: problemContentType,
        content: `${JSON.stringify(toProblemDocument(problem))}\n`,
      }
    case 'git-lfs':
      return { type: lfsContentType, content: JSON.stringify(toLfsError(problem)) }
    // Git shows its user only plain text.
    case 'git':
      return { type: 'text/plain; charset=utf-8', content: `${problem.message}\n` }
  }
}

function send(
  { request, response }: { request: IncomingMessage; response: ServerResponse },
  status: number,
  { type, content }: { type: string; content: string | Buffer },
): void {
  endUnread(request, response, status)
  response.setHeader('content-type', type)
  response.setHeader('content-length', Buffer.byteLength(content))
  response.writeHead(status).end(content)
}
