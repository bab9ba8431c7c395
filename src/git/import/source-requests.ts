import { once } from 'node:events'
import {
  type Agent,
  request as httpRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type RequestOptions,
} from 'node:http'
import { request as httpsRequest } from 'node:https'
import { pipeline } from 'node:stream/promises'
import { importFailed } from './import-error.ts'

/** Requests to the host of a source and to others that it names, all to checked addresses. */
export type SourceRequests = AsyncDisposable & {
  /** The repository, without credentials, query or fragment. */
  url: URL
  /** Sends a request, with the credentials of the source to its own origin. Redirects are left to the caller. */
  send: (
    at: URL,
    options: RequestOptions,
    body?: IncomingMessage | string,
  ) => Promise<IncomingMessage>
  credentialsAt: (at: URL) => Credentials
}

type Options = {
  url: URL
  /** The `Authorization` header for the host of the repository, and for no other. */
  authorization: string | undefined
  /** Returns an agent that connects only to the resolved and checked addresses of a URL's host. */
  agentFor: (url: URL) => Promise<Agent>
  signal: AbortSignal
}

/** Whether credentials are sent to a host: not to a host that the source redirects to. */
export type Credentials = 'none' | 'given' | 'withheld'

export const maxRedirects = 5
const redirections = new Set([301, 302, 303, 307, 308])
// A source could send them without end.
const maxInformationalResponses = 20
// A source names few hosts, and each has connections.
const maxOrigins = 16

export function createSourceRequests(options: Options): SourceRequests {
  const { url, authorization, agentFor, signal } = options
  const agents = new Map<string, Promise<Agent>>()

  function credentialsAt(at: URL): Credentials {
    if (authorization === undefined) return 'none'
    return at.origin === url.origin ? 'given' : 'withheld'
  }

  function agentAt(at: URL): Promise<Agent> {
    const known = agents.get(at.origin)
    if (known !== undefined) return known
    if (agents.size >= maxOrigins) throw importFailed('The source names too many other hosts.')
    const agent = agentFor(at)
    agents.set(at.origin, agent)
    return agent
  }

  return {
    url,
    credentialsAt,

    async send(at, requested, body) {
      const agent = await agentAt(at)
      const headers: OutgoingHttpHeaders = {
        ...(credentialsAt(at) === 'given' && { authorization }),
        // All callers pass headers as an object.
        ...(requested.headers as OutgoingHttpHeaders),
      }
      const requestOf = at.protocol === 'https:' ? httpsRequest : httpRequest
      const request = requestOf(at, { signal, ...requested, headers, agent })
      // It may also fail after its response has begun, which the reader of that notices.
      request.on('error', () => {})
      let informationalResponses = 0
      request.on('information', () => {
        if (++informationalResponses <= maxInformationalResponses) return
        request.destroy(importFailed('The source sends too many informational responses (1xx).'))
      })
      const responded = once(request, 'response')
      if (typeof body === 'object') await Promise.race([pipeline(body, request), responded])
      else request.end(body)
      // The event has one argument.
      const [response] = (await responded) as [IncomingMessage]
      return response
    },

    async [Symbol.asyncDispose]() {
      const opened = await Promise.allSettled(agents.values())
      for (const agent of opened) if (agent.status === 'fulfilled') agent.value.destroy()
    },
  }
}

export function isRedirect({ statusCode = 0 }: IncomingMessage): boolean {
  return redirections.has(statusCode)
}

/** The target of a redirect. Throws an `import_failed` for one that leads from https to another protocol, or to nowhere. */
export function redirectTarget(from: URL, { headers: { location } }: IncomingMessage): URL {
  const to = location === undefined ? null : URL.parse(location, from)
  if (!to) throw importFailed('The source redirects to nowhere.')
  if (isAsSecure(from, to)) return to
  throw importFailed(`The source redirects to ${to.protocol}//, which is not followed.`)
}

/** Whether an address is of HTTP, and of HTTPS if the one that leads to it is. */
export function isAsSecure(from: URL, to: URL): boolean {
  return to.protocol === 'https:' || (to.protocol === 'http:' && from.protocol === 'http:')
}
