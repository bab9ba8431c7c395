import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Principal } from '#access/principal.ts'
import { atEndOfTick } from '#base/end-of-tick.ts'
import { Problem } from '#base/problem.ts'
import type { PlainSettings } from '#config/settings.ts'
import { flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { readArrived, readBody } from '#git/protocol/request-body.ts'
import type { FindRequest, StreamRoute } from '#http/route.ts'
import type { Repositories, Repository } from '#repositories/repositories.ts'
import type { GitEngine } from '../git-engine.ts'
import {
  type GitRequest,
  type GitResponse,
  lfsRefusal,
  protocolIn,
  type RequestOutcome,
  type Service,
} from '../requests/git-request.ts'

type Dependencies = {
  repositories: Pick<Repositories, 'openForGit'>
  engine: GitEngine
  settings: Pick<PlainSettings, 'fetchRequestMaxBytes' | 'pushMaxBytes'>
}

const permissionFor = (service: Service) =>
  service === 'git-upload-pack' ? 'repo:read' : 'repo:write'

/** The routes of Git's smart protocol at `/repos/<name>.git`, and of Git LFS, which is refused. */
export function gitRoutes({ repositories, engine, settings }: Dependencies): StreamRoute[] {
  const gitOverHttp = createGitOverHttp(engine)
  const find = ({ principal, permission, params }: FindRequest): Promise<Repository> => {
    const { repository = '' } = params
    if (!repository.endsWith('.git')) {
      throw new Problem(
        'route_not_found',
        `The Git URL of a repository ends in .git: /repos/${repository}.git`,
      )
    }
    return repositories.openForGit(principal, repository.slice(0, -'.git'.length), permission)
  }

  return [
    {
      kind: 'stream',
      method: 'GET',
      path: '/repos/:repository/info/refs',
      operationId: 'advertiseRefs',
      tag: 'git',
      summary: 'Advertise refs to a Git client',
      description:
        'Starts a fetch with `?service=git-upload-pack` or a push with `?service=git-receive-pack`.',
      parameters: ['service'],
      permissionFor: (query) => permissionFor(serviceIn(query)),
      find,
      isLongLived: true,
      consumes: undefined,
      maxBytes: 0,
      produces: 'application/x-git-upload-pack-advertisement',
      problems: ['repository_not_found', 'git_limit_exceeded', 'storage_full'],
      serve: (exchange) => gitOverHttp.advertise(serviceIn(exchange.query), toExchange(exchange)),
    },
    {
      kind: 'stream',
      method: 'POST',
      path: '/repos/:repository/git-upload-pack',
      operationId: 'uploadPack',
      tag: 'git',
      summary: 'Fetch with a Git client',
      parameters: [],
      permissionFor: () => permissionFor('git-upload-pack'),
      find,
      isLongLived: true,
      consumes: 'application/x-git-upload-pack-request',
      maxBytes: settings.fetchRequestMaxBytes,
      produces: 'application/x-git-upload-pack-result',
      problems: ['repository_not_found', 'git_busy', 'request_timed_out'],
      serve: (exchange) => gitOverHttp.fetch(toExchange(exchange)),
    },
    {
      kind: 'stream',
      method: 'POST',
      path: '/repos/:repository/git-receive-pack',
      operationId: 'receivePack',
      tag: 'git',
      summary: 'Push with a Git client',
      parameters: [],
      permissionFor: () => permissionFor('git-receive-pack'),
      find,
      // Access is checked again when the pre-receive hook runs, which ends a push that lost it.
      isLongLived: false,
      consumes: 'application/x-git-receive-pack-request',
      maxBytes: settings.pushMaxBytes,
      produces: 'application/x-git-receive-pack-result',
      problems: ['repository_not_found', 'request_timed_out', 'storage_full'],
      serve: (exchange) => gitOverHttp.push(toExchange(exchange)),
    },
    ...lfsRoutes(find),
  ]
}

function toExchange({ found, ...exchange }: Parameters<StreamRoute['serve']>[0]): HttpExchange {
  // What `find` above returned.
  return { ...exchange, repository: found as Repository }
}

function serviceIn(query: URLSearchParams): Service {
  const service = query.get('service')
  if (service === 'git-upload-pack' || service === 'git-receive-pack') return service
  throw new Problem(
    'malformed_git_request',
    "Only Git's smart protocol is supported: use service=git-upload-pack or service=git-receive-pack.",
  )
}

// A batch request names a few hundred objects at most.
const requestMaxBytes = 1024 * 1024

/**
 * The routes of the Git LFS API, which refuse every request in its error format:
 * https://github.com/git-lfs/git-lfs/tree/main/docs/api. Access is checked first, so a response does not reveal whether
 * a repository exists.
 */
function lfsRoutes(find: StreamRoute['find']): StreamRoute[] {
  const common = {
    kind: 'stream',
    path: '/repos/:repository/info/lfs/:path*',
    tag: 'git',
    permissionFor: () => 'repo:read',
    find,
    isLongLived: false,
    consumes: undefined,
    maxBytes: requestMaxBytes,
    produces: undefined,
    problemFormat: 'git-lfs',
    problems: ['repository_not_found', 'body_too_large', 'lfs_not_supported'],
    async serve() {
      throw new Problem('lfs_not_supported', lfsRefusal)
    },
  } as const satisfies Partial<StreamRoute>
  const parameters = ['path', 'id', 'cursor', 'limit', 'refspec']

  return [
    {
      ...common,
      problems: [...common.problems],
      method: 'GET',
      operationId: 'getLfs',
      summary: 'Read from Git LFS (not supported)',
      description: 'Git LFS is not supported; every request fails.',
      parameters,
      optionalParameters: parameters,
    },
    {
      ...common,
      problems: [...common.problems],
      method: 'POST',
      operationId: 'postLfs',
      summary: 'Request Git LFS objects or locks (not supported)',
      description: 'Git LFS is not supported; every request fails.',
      parameters: [],
    },
  ]
}

/** A request of Git's HTTP protocol whose principal and repository are known. */
type HttpExchange = {
  request: IncomingMessage
  response: ServerResponse
  principal: Principal
  repository: Repository
  /** Aborted when the client is gone. */
  signal: AbortSignal
}

/** Serves Git's smart HTTP protocol: https://git-scm.com/docs/http-protocol */
function createGitOverHttp(engine: GitEngine) {
  return {
    /** Serves `GET info/refs`: capabilities and, before protocol version 2, all refs. */
    async advertise(service: Service, exchange: HttpExchange): Promise<void> {
      const request = toGitRequest(exchange, `application/x-${service}-advertisement`)
      const isVersionTwo = service === 'git-upload-pack' && request.protocol === 'version=2'
      const heading = isVersionTwo
        ? undefined
        : Buffer.concat([packet(`# service=${service}\n`), flushPacket])
      finish(exchange, request, await engine.advertise(service, request, heading))
    },

    /** Serves `POST git-upload-pack`. */
    async fetch(exchange: HttpExchange): Promise<void> {
      const request = toGitRequest(exchange, 'application/x-git-upload-pack-result')
      const body = readArrived(exchange.request) ?? readBody(exchange.request, exchange.signal)
      finish(exchange, request, await engine.fetch(request, body))
    },

    /** Serves `POST git-receive-pack`. */
    async push(exchange: HttpExchange): Promise<void> {
      const request = toGitRequest(exchange, 'application/x-git-receive-pack-result')
      const body = readBody(exchange.request, exchange.signal)
      finish(exchange, request, await engine.push(request, body, mayBeProbe(exchange.request)))
    },
  }
}

function toGitRequest(exchange: HttpExchange, contentType: string): GitRequest {
  const { request, response, principal, repository, signal } = exchange
  return {
    principal,
    repository,
    protocol: protocolIn(String(request.headers['git-protocol'] ?? '')),
    response: toGitResponse(response, contentType),
    isReceiving: () => !request.complete,
    // Otherwise the system ends the connection (TCP keep-alive).
    isAlive: () => true,
    sendsAllFirst: true,
    signal,
  }
}

function toGitResponse(response: ServerResponse, contentType: string): GitResponse {
  let isSent = false

  function begin(size?: number): void {
    response.setHeader('content-type', contentType)
    response.setHeader('cache-control', 'no-cache, max-age=0, must-revalidate')
    if (size !== undefined) response.setHeader('content-length', size)
    response.writeHead(200)
  }

  return {
    output: response,
    begin,
    respondWithBytes(bytes) {
      isSent = true
      atEndOfTick(() => {
        begin(bytes.length)
        response.end(bytes)
      })
    },
    hasBegun: () => isSent || response.headersSent,
    onComplete() {
      if (response.headersSent) response.end()
    },
  }
}

function finish({ response }: HttpExchange, request: GitRequest, outcome: RequestOutcome): void {
  if (outcome === null) response.destroy()
  else if (response.headersSent || !request.response.hasBegun()) response.end()
}

// Git probes with an empty request before it sends a large one: remote-curl.c, probe_rpc.
function mayBeProbe({ headers }: IncomingMessage): boolean {
  return headers['content-length'] === String(flushPacket.length)
}
