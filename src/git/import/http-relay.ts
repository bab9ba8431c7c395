import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Duplex, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createInflate } from 'node:zlib'
import { printable } from '#base/format.ts'
import { Problem } from '#base/problem.ts'
import { trimEndOf } from '#base/trim-end.ts'
import { importFailed, refsMaxBytes, tooManyRefs } from './import-error.ts'
import {
  type Credentials,
  isRedirect,
  maxRedirects,
  redirectTarget,
  type SourceRequests,
} from './source-requests.ts'

type Options = {
  requests: SourceRequests
  signal: AbortSignal
  /** Called whenever data arrives from the source. */
  onProgress: () => void
}

/** A local address from which git can fetch a remote repository. */
type Relay = AsyncDisposable & {
  /** The address for git. It contains a secret, so that other processes cannot use the relay. */
  address: string
  /** Returns the error of the source, if any. */
  fault: () => unknown
}

const service = 'git-upload-pack'
const advertisement = `application/x-${service}-advertisement`
const result = `application/x-${service}-result`
const notGit = 'The source ended the connection, or does not speak the Git protocol.'
const forwardedHeaders = [
  'accept',
  'content-type',
  'content-encoding',
  // Without it the request would be chunked, which HTTP/1.0 and many CGI programs do not support.
  'content-length',
  'git-protocol',
  'user-agent',
]

/**
 * Opens a proxy between git and a repository served over smart HTTP: https://git-scm.com/docs/http-protocol.
 * Git never sees the credentials, and every connection goes to a checked address, also after a redirect of the first
 * request. A source that does not speak the smart protocol is rejected, since git would fall back to the dumb protocol.
 */
export async function openHttpRelay({ requests, signal, onProgress }: Options) {
  const { send, credentialsAt } = requests
  const secret = randomBytes(16).toString('hex')
  let base = new URL(trimEndOf(requests.url.href, '/'))
  let fault: unknown

  async function advertise(headers: OutgoingHttpHeaders): Promise<IncomingMessage> {
    let at = new URL(`${base.href}/info/refs?service=${service}`)
    for (let redirects = 0; redirects <= maxRedirects; redirects++) {
      const response = await send(at, { headers })
      if (!isRedirect(response)) {
        expect(response, advertisement, credentialsAt(at))
        base = new URL(at.href.split('/info/refs?', 1)[0] ?? '')
        return response
      }
      response.destroy()
      at = redirected(at, response)
    }
    throw importFailed('The source redirects too often.')
  }

  async function relayRequest(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const headers = Object.fromEntries(
      forwardedHeaders.flatMap((name) =>
        request.headers[name] ? [[name, request.headers[name]]] : [],
      ),
    )
    if (request.url === `/${secret}/info/refs?service=${service}`) {
      return forward(await advertise(headers), response, { onProgress, maxBytes: refsMaxBytes })
    }
    if (request.url !== `/${secret}/${service}` || request.method !== 'POST') {
      response.writeHead(404).end()
      return
    }
    const at = new URL(`${base.href}/${service}`)
    const upstream = await send(at, { method: 'POST', headers }, request)
    expect(upstream, result, credentialsAt(at))
    await forward(upstream, response, { onProgress, maxBytes: Number.POSITIVE_INFINITY })
  }

  const server = createServer((request, response) => {
    relayRequest(request, response).catch((error) => {
      const reason = signal.aborted ? signal.reason : explain(error)
      // A git that ends early breaks the pipe, and reports the reason itself.
      if (reason instanceof Problem || !response.destroyed) fault ??= reason
      if (response.headersSent) response.destroy()
      else response.writeHead(502).end()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  // A TCP server's address is neither null nor a path once it listens.
  const { port } = server.address() as AddressInfo

  const relay: Relay = {
    address: `http://127.0.0.1:${port}/${secret}`,
    fault: () => fault,
    async [Symbol.asyncDispose]() {
      server.close()
      server.closeAllConnections()
    },
  }
  return relay
}

async function forward(
  upstream: IncomingMessage,
  response: ServerResponse,
  { onProgress, maxBytes }: { onProgress: () => void; maxBytes: number },
): Promise<void> {
  const { 'content-type': type } = upstream.headers
  response.writeHead(200, { ...(type && { 'content-type': type }) })
  let isOfSource = false
  let bytes = 0
  upstream.once('error', () => {
    isOfSource = !response.destroyed
  })
  // Limited here, because git buffers a whole advertisement before it parses it.
  const bounded = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      onProgress()
      bytes += chunk.length
      done(bytes > maxBytes ? tooManyRefs() : null, chunk)
    },
  })
  await pipeline([upstream, ...decoders(upstream), bounded, response]).catch((error) => {
    if (error instanceof Problem) throw error
    if (isUndecodable(error)) throw importFailed(notGit, error)
    // When git hangs up, it reports the reason itself.
    if (!isOfSource) return
    throw error.code === 'ECONNRESET'
      ? importFailed('The source ended the connection in the middle of its response.', error)
      : error
  })
}

// Decoded here and not by git, so that the limit applies to the decoded size.
function decoders(upstream: IncomingMessage): Duplex[] {
  const encoding = upstream.headers['content-encoding']?.trim().toLowerCase() ?? 'identity'
  if (encoding === 'identity') return []
  if (/^(x-)?gzip$/.test(encoding)) return [createGunzip()]
  if (encoding === 'deflate') return [createInflate()]
  throw importFailed(
    `The source uses the content encoding "${printable(encoding)}", which is not supported.`,
  )
}

function isUndecodable(error: NodeJS.ErrnoException): boolean {
  return /^Z_/.test(error.code ?? '')
}

const unauthorizedDetails: Record<Credentials, string> = {
  none: 'The source requires credentials; add them to its address: https://user:password@host/path.',
  given: 'The source does not accept these credentials.',
  withheld:
    'The source redirects to another host, which asks for credentials; import from that host itself.',
}

/** Throws an `import_failed` for a response that does not follow Git's smart protocol. */
function expect(upstream: IncomingMessage, type: string, credentials: Credentials): void {
  const { statusCode = 0 } = upstream
  const isSmart = upstream.headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase() === type
  if (statusCode === 200 && isSmart) return
  upstream.destroy()
  if (statusCode === 401) {
    throw importFailed(unauthorizedDetails[credentials])
  }
  if (statusCode === 403) throw importFailed('The source does not let these credentials read it.')
  if (statusCode === 404 || statusCode === 410) {
    throw importFailed('There is no repository at the source, or it is private.')
  }
  if (statusCode !== 200) throw importFailed(`The source answers with HTTP status ${statusCode}.`)
  throw importFailed(
    'The source does not speak the smart HTTP protocol of Git; check that its address is a repository.',
  )
}

function redirected(from: URL, response: IncomingMessage): URL {
  const to = redirectTarget(from, response)
  const isRepository = to.pathname.endsWith('/info/refs') && to.search === from.search
  if (!isRepository || to.username || to.password) {
    throw importFailed(
      'The source redirects to what is no repository; it may ask for a login, or have another address.',
    )
  }
  return to
}

const reasons: Record<string, string> = {
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was reset',
  EPIPE: 'the connection was reset',
  EHOSTUNREACH: 'no route to its host',
  ENETUNREACH: 'no route to its network',
  ETIMEDOUT: 'the connection timed out',
  EPROTO: 'it does not speak TLS',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is signed by itself',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate is not signed by a known authority',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its certificate is not signed by a known authority',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'its certificate is not signed by a known authority',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
  HPE_INVALID_CONSTANT: 'it does not speak HTTP',
  HPE_HEADER_OVERFLOW: 'its headers are too large',
}

function explain(error: unknown): unknown {
  // When all addresses of a host fail, Node throws an AggregateError with an error for each.
  const first = error instanceof AggregateError ? error.errors[0] : error
  const code = first instanceof Error && 'code' in first ? String(first.code) : ''
  const reason = reasons[code] ?? (/^(CERT|ERR_(SSL|TLS))_/.test(code) ? 'its TLS is invalid' : '')
  const isHttp = code.startsWith('HPE_')
  if (reason === '' && !isHttp) return error
  return importFailed(`The source cannot be reached: ${reason || 'it does not speak HTTP'}.`, error)
}
