import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Principal } from '#access/principal.ts'
import { atEndOfTick } from '#base/end-of-tick.ts'
import { Problem } from '#base/problem.ts'
import type { PlainSettings } from '#config/settings.ts'
import { flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { readArrived, readBody } from '#git/protocol/request-body.ts'
import type { StreamExchange, StreamRoute } from '#http/route.ts'
import type { Repositories, Repository } from '#repositories/repositories.ts'
import type { GitEngine } from '../git-engine.ts'
import { findByGitUrl, needOf } from '../requests/find-repository.ts'
import {
  type GitRequest,
  type GitResponse,
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

/** The routes of Git's smart protocol at `/repos/<name>.git`. */
export function gitRoutes({ repositories, engine, settings }: Dependencies): StreamRoute[] {
  const gitOverHttp = createGitOverHttp(engine)
  const find: StreamRoute['find'] = (request) =>
    findByGitUrl(repositories, request, needOf(request.permission))

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
      allowsAnonymous: true,
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
      allowsAnonymous: true,
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
      path: '/repos/:repository/git-upload-archive',
      operationId: 'uploadArchive',
      tag: 'git',
      summary: 'Get an archive with a Git client',
      description: 'Serves `git archive --remote` of clients since Git 2.44.',
      parameters: [],
      permissionFor: () => permissionFor('git-upload-pack'),
      find,
      allowsAnonymous: true,
      isLongLived: true,
      consumes: 'application/x-git-upload-archive-request',
      maxBytes: settings.fetchRequestMaxBytes,
      produces: 'application/x-git-upload-archive-result',
      problems: ['repository_not_found', 'git_busy', 'request_timed_out'],
      serve: (exchange) => gitOverHttp.archive(toExchange(exchange)),
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
      // After that, the authorization in the pre-receive hook checks access again.
      isLongLived: 'body',
      consumes: 'application/x-git-receive-pack-request',
      maxBytes: settings.pushMaxBytes,
      produces: 'application/x-git-receive-pack-result',
      problems: ['repository_not_found', 'request_timed_out', 'storage_full', 'namespace_full'],
      serve: (exchange) => gitOverHttp.push(toExchange(exchange)),
    },
  ]
}

function toExchange({ found, ...exchange }: StreamExchange): HttpExchange {
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

    /** Serves `POST git-upload-archive`. */
    async archive(exchange: HttpExchange): Promise<void> {
      const request = toGitRequest(exchange, 'application/x-git-upload-archive-result')
      const body = readBody(exchange.request, exchange.signal)
      finish(exchange, request, await engine.archive(request, body))
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
  let shortBytes = 0
  const { socket } = response
  const sentBefore = socket?.bytesWritten ?? 0

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
      shortBytes = bytes.length
      atEndOfTick(() => {
        begin(bytes.length)
        response.end(bytes)
      })
    },
    hasBegun: () => isSent || response.headersSent,
    // A short response is written later.
    sentBytes: () => (isSent ? shortBytes : (socket?.bytesWritten ?? 0) - sentBefore),
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
