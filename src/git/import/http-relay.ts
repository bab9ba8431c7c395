import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  type Agent,
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type RequestOptions,
  type ServerResponse,
} from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { AddressInfo } from 'node:net'
import { type Duplex, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createInflate } from 'node:zlib'
import { printable } from '../../base/format.ts'
import { Problem } from '../../base/problem.ts'
import { trimEndOf } from '../../base/trim-end.ts'
import { importFailed, refsMaxBytes, tooManyRefs } from './import-error.ts'

type Options = {
  /** The repository, without credentials, query or fragment. */
  url: URL
  /** The `Authorization` header for the host of the repository, and for no other. */
  authorization: string | undefined
  /** Gives what connects to the host of an address, and only to where the host was found to be. */
  agentFor: (url: URL) => Promise<Agent>
  signal: AbortSignal
  /** Called whenever something has come from the source. */
  onProgress: () => void
}

/** A repository somewhere else as git finds it here. */
type Relay = AsyncDisposable & {
  /** What git is told; only who knows it is let through. */
  address: string
  /** Why the source could not be asked, when that is not git's fault. */
  fault: () => unknown
}

const service = 'git-upload-pack'
const advertisement = `application/x-${service}-advertisement`
const result = `application/x-${service}-result`
const redirections = new Set([301, 302, 303, 307, 308])
const redirectsAtMost = 5
// Each takes processor time, and none ends the request.
const maxInformationalResponses = 20
const notGit = 'The source ended the connection, or does not speak the Git protocol.'
const handedOn = [
  'accept',
  'content-type',
  'content-encoding',
  // Without it the request would be chunked, which HTTP/1.0 and many CGI programs do not know.
  'content-length',
  'git-protocol',
  'user-agent',
]

/**
 * Stands between git and a repository that is served over smart HTTP: https://git-scm.com/docs/http-protocol.
 * Git knows neither the credentials nor the way: each connection goes to an address that was checked, a
 * redirection of the first request is followed to one that is checked as well, and whatever does not speak
 * the smart protocol is refused, since git would fall back to fetching files one by one and unchecked.
 */
export async function openHttpRelay(options: Options) {
  const { url, authorization, agentFor, signal, onProgress } = options
  const agents = new Map<string, Promise<Agent>>()
  const secret = randomBytes(16).toString('hex')
  let base = withoutEnd(url)
  let fault: unknown

  function credentialsAt(at: URL): Credentials {
    if (authorization === undefined) return 'none'
    return at.origin === url.origin ? 'given' : 'kept back'
  }

  async function ask(at: URL, options: RequestOptions, body?: IncomingMessage) {
    const agent = agents.get(at.origin) ?? agentFor(at)
    agents.set(at.origin, agent)
    const headers: OutgoingHttpHeaders = {
      // Both are of this file: the options of a request with an object of headers.
      ...(options.headers as OutgoingHttpHeaders),
      ...(credentialsAt(at) === 'given' && { authorization }),
    }
    const send = at.protocol === 'https:' ? httpsRequest : httpRequest
    const asking = send(at, { ...options, headers, agent: await agent, signal })
    let informationalResponses = 0
    asking.on('information', () => {
      if (++informationalResponses <= maxInformationalResponses) return
      asking.destroy(importFailed('The source sends too many informational responses (1xx).'))
    })
    const answered = once(asking, 'response')
    if (body) await Promise.race([pipeline(body, asking), answered])
    else asking.end()
    // The event has one argument.
    const [answer] = (await answered) as [IncomingMessage]
    return answer
  }

  async function advertise(headers: OutgoingHttpHeaders): Promise<IncomingMessage> {
    let at = new URL(`${base.href}/info/refs?service=${service}`)
    for (let hops = 0; hops <= redirectsAtMost; hops++) {
      const answer = await ask(at, { headers })
      if (!redirections.has(answer.statusCode ?? 0)) {
        expect(answer, advertisement, credentialsAt(at))
        base = new URL(at.href.split('/info/refs?', 1)[0] ?? '')
        return answer
      }
      answer.destroy()
      at = redirected(at, answer.headers.location)
    }
    throw importFailed('The source redirects too often.')
  }

  async function answerGit(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const headers = Object.fromEntries(
      handedOn.flatMap((name) => (request.headers[name] ? [[name, request.headers[name]]] : [])),
    )
    if (request.url === `/${secret}/info/refs?service=${service}`) {
      return handBack(await advertise(headers), response, { onProgress, maxBytes: refsMaxBytes })
    }
    if (request.url !== `/${secret}/${service}` || request.method !== 'POST') {
      response.writeHead(404).end()
      return
    }
    const at = new URL(`${base.href}/${service}`)
    const answer = await ask(at, { method: 'POST', headers }, request)
    expect(answer, result, credentialsAt(at))
    await handBack(answer, response, { onProgress, maxBytes: Number.POSITIVE_INFINITY })
  }

  const server = createServer((request, response) => {
    answerGit(request, response).catch((error) => {
      const told = signal.aborted ? signal.reason : explain(error)
      // A git that has ended by itself breaks the pipe, and says why.
      if (told instanceof Problem || !response.destroyed) fault ??= told
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
      const opened = await Promise.allSettled(agents.values())
      for (const agent of opened) if (agent.status === 'fulfilled') agent.value.destroy()
    },
  }
  return relay
}

async function handBack(
  answer: IncomingMessage,
  response: ServerResponse,
  { onProgress, maxBytes }: { onProgress: () => void; maxBytes: number },
): Promise<void> {
  const { 'content-type': type } = answer.headers
  response.writeHead(200, { ...(type && { 'content-type': type }) })
  let isOfSource = false
  let bytes = 0
  answer.once('error', () => {
    isOfSource = !response.destroyed
  })
  // Git buffers a whole advertisement before it parses it, so it is bounded here.
  const bounded = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      onProgress()
      bytes += chunk.length
      done(bytes > maxBytes ? tooManyRefs() : null, chunk)
    },
  })
  await pipeline([answer, ...decoders(answer), bounded, response]).catch((error) => {
    if (error instanceof Problem) throw error
    if (isUndecodable(error)) throw importFailed(notGit, error)
    // A git that has enough of what it reads hangs up, and says why itself.
    if (!isOfSource) return
    throw error.code === 'ECONNRESET'
      ? importFailed('The source ended the connection in the middle of its answer.', error)
      : error
  })
}

// Decoded here and not by git: what counts is how large an answer really is.
function decoders(answer: IncomingMessage): Duplex[] {
  const encoding = answer.headers['content-encoding']?.trim().toLowerCase() ?? 'identity'
  if (encoding === 'identity') return []
  if (/^(x-)?gzip$/.test(encoding)) return [createGunzip()]
  if (encoding === 'deflate') return [createInflate()]
  throw importFailed(
    `The source sends the encoding "${printable(encoding)}", which is not accepted.`,
  )
}

function isUndecodable(error: NodeJS.ErrnoException): boolean {
  return /^Z_/.test(error.code ?? '')
}

/** Whether the host of a repository has the credentials for it: not one that it only redirects to. */
type Credentials = 'none' | 'given' | 'kept back'

const asksForCredentials: Record<Credentials, string> = {
  none: 'The source asks for credentials: https://user:password@… in its address.',
  given: 'The source does not accept these credentials.',
  'kept back':
    'The source redirects to another host, which asks for credentials; import from that host itself.',
}

/** Refuses an answer that is not what Git's smart protocol has at this place. */
function expect(answer: IncomingMessage, type: string, credentials: Credentials): void {
  const { statusCode = 0 } = answer
  const isSmart = answer.headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase() === type
  if (statusCode === 200 && isSmart) return
  answer.destroy()
  if (statusCode === 401) {
    throw importFailed(asksForCredentials[credentials])
  }
  if (statusCode === 403) throw importFailed('The source does not let these credentials read it.')
  if (statusCode === 404 || statusCode === 410) {
    throw importFailed('There is no repository at the source, or it is not to be seen.')
  }
  if (statusCode !== 200) throw importFailed(`The source answers with HTTP status ${statusCode}.`)
  throw importFailed(
    'What is at the source does not speak the smart HTTP protocol of Git; there may be no repository.',
  )
}

function redirected(from: URL, location: string | undefined): URL {
  const to = location === undefined ? null : URL.parse(location, from)
  if (!to) throw importFailed('The source redirects to nowhere.')
  const isInside = from.protocol === 'https:' ? /^https:$/ : /^https?:$/
  if (!isInside.test(to.protocol)) {
    throw importFailed(`The source redirects to ${to.protocol}//, which is not followed.`)
  }
  const isRepository = to.pathname.endsWith('/info/refs') && to.search === from.search
  if (!isRepository || to.username || to.password) {
    throw importFailed(
      'The source redirects to what is no repository; it may ask for a login, or have another address.',
    )
  }
  return to
}

function withoutEnd(url: URL): URL {
  return new URL(trimEndOf(url.href, '/'))
}

const reasons: Record<string, string> = {
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was reset',
  EPIPE: 'the connection was reset',
  EHOSTUNREACH: 'there is no way to its host',
  ENETUNREACH: 'there is no way to its network',
  ETIMEDOUT: 'it does not answer',
  EPROTO: 'it does not speak TLS',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is signed by itself',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate is signed by nobody who is known',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its certificate is signed by nobody who is known',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'its certificate is signed by nobody who is known',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
  HPE_INVALID_CONSTANT: 'it does not speak HTTP',
  HPE_HEADER_OVERFLOW: 'its headers are too large',
}

function explain(error: unknown): unknown {
  // Node gives up on a connection to several addresses with an error that holds one for each.
  const first = error instanceof AggregateError ? error.errors[0] : error
  const code = first instanceof Error && 'code' in first ? String(first.code) : ''
  const reason = reasons[code] ?? (/^(CERT|ERR_(SSL|TLS))_/.test(code) ? 'its TLS is faulty' : '')
  const isHttp = code.startsWith('HPE_')
  if (reason === '' && !isHttp) return error
  return importFailed(`The source cannot be reached: ${reason || 'it does not speak HTTP'}.`, error)
}
