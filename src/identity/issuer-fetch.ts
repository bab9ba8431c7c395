import { request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import type { Outbound } from '#base/outbound/outbound.ts'

type FetchOptions = {
  method?: string
  headers?: Record<string, string>
  body?: unknown
  signal?: AbortSignal | undefined
}

/** The part of the Fetch API that `openid-client` uses. */
export type IssuerFetch = (url: string, options: FetchOptions) => Promise<Response>

type Dependencies = {
  outbound: Pick<Outbound, 'agentFor'>
  /** The time for a response with its body. */
  timeoutMs?: number
}

const maxBytes = 1024 * 1024

/**
 * Creates the function that sends all requests to the identity provider, and to issuers of the tokens of workloads: to
 * addresses that `outbound` has checked, without following redirections, and with limits of time and size.
 */
export function createIssuerFetch({ outbound, timeoutMs = 10_000 }: Dependencies): IssuerFetch {
  return async (address, { method = 'GET', headers = {}, body, signal }) => {
    const url = new URL(address)
    const agent = await outbound.agentFor(url)
    const isHttps = url.protocol === 'https:'
    const timeout = AbortSignal.timeout(timeoutMs)
    const sent = (isHttps ? requestHttps : requestHttp)(url, {
      ...{ method, headers, agent },
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    })
    try {
      const { promise, resolve, reject } = Promise.withResolvers<Response>()
      sent.once('error', reject)
      sent.once('response', (response) => {
        const chunks: Buffer[] = []
        let bytes = 0
        response.on('data', (chunk: Buffer) => {
          bytes += chunk.length
          if (bytes > maxBytes) sent.destroy(new Error(`The response of ${url.host} is too large.`))
          else chunks.push(chunk)
        })
        response.once('error', reject)
        response.once('end', () => {
          const status = response.statusCode ?? 0
          const type = response.headers['content-type']
          resolve(
            new Response(hasBody(status) ? Buffer.concat(chunks) : null, {
              status,
              ...(type !== undefined && { headers: { 'content-type': type } }),
            }),
          )
        })
      })
      sent.end(body === undefined || body === null ? undefined : String(body))
      return await promise
    } finally {
      agent.destroy()
    }
  }
}

/** `Response` takes no body with these: Fetch Standard, section 2.2.3. */
function hasBody(status: number): boolean {
  return ![101, 103, 204, 205, 304].includes(status)
}
