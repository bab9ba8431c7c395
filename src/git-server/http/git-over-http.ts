import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Principal } from '#access/principal.ts'
import { atEndOfTick } from '#base/end-of-tick.ts'
import { flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { readArrived, readBody } from '#git/protocol/request-body.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { GitEngine } from '../git-engine.ts'
import {
  type GitRequest,
  type GitResponse,
  protocolIn,
  type RequestOutcome,
  type Service,
} from '../requests/git-request.ts'

/** A request of Git's HTTP protocol whose principal and repository are known. */
export type HttpExchange = {
  request: IncomingMessage
  response: ServerResponse
  principal: Principal
  repository: Repository
  /** Aborted when the client is gone. */
  signal: AbortSignal
}

/** Serves Git's smart HTTP protocol: https://git-scm.com/docs/http-protocol */
export function createGitOverHttp(engine: GitEngine) {
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
