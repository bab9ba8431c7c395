import { type IncomingMessage, type RequestOptions, request as startHttp } from 'node:http'
import { request as startHttps } from 'node:https'
import { printable } from '#base/format.ts'
import type { Json } from '#base/json.ts'
import { CommandError } from '../terminal/command-errors.ts'
import { explainConnection, explainProblem } from './response-errors.ts'

export type ApiRequest = {
  method: string
  /** Made with `path`, which encodes its parts. */
  path: string
  query?: Record<string, string | number | boolean | undefined> | undefined
  body?: unknown
  headers?: Record<string, string>
  /** How much longer than usual the server may take, as it waits. */
  waitMs?: number
}

/** Performs operations of the API, on a server or on a data directory. */
export type ApiClient = {
  url: string
  /** The JSON of a response; null if it has no body. */
  json: (request: ApiRequest) => Promise<Json>
  /** All entries of a list, page by page, or the first `limit` of them. A query parameter has the place of a page. */
  list: (request: ApiRequest, limit?: number, parameter?: string) => Promise<Json[]>
}

export type HttpClient = ApiClient & {
  /** The text of a response, which has to be of this media type. */
  text: (request: ApiRequest, type: string) => Promise<string>
  /** The body of a successful response of one of these media types, while it arrives. Its reader may stop early, which ends the connection. */
  stream: (request: ApiRequest, ...types: string[]) => Promise<AsyncIterable<Buffer>>
}

type Options = { url: string; token: string | undefined; timeoutMs: number; version: string }

const bodyMaxBytes = 256 * 1024 * 1024
const listPageSize = 1000
/** Follow-up silence: the server sends a sign of life more often. */
const streamIdleMs = 120_000

/** Calls the API of a server. Redirects are not followed: the token is for this server only. */
export function createHttpClient({ url, token, timeoutMs, version }: Options): HttpClient {
  const start = url.startsWith('https:') ? startHttps : startHttp

  function send({ method, path, query = {}, body, headers = {}, ...rest }: ApiRequest) {
    const target = new URL(url + path)
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) target.searchParams.set(name, String(value))
    }
    const content = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
    const options: RequestOptions = {
      method,
      headers: {
        accept: 'application/json, application/problem+json',
        'user-agent': `svc/${version}`,
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(content && { 'content-type': 'application/json', 'content-length': content.length }),
        ...headers,
      },
    }
    const limitMs = timeoutMs + (rest.waitMs ?? 0)
    return new Promise<{ response: IncomingMessage; stop: () => void }>((resolve, reject) => {
      let arriving: IncomingMessage | undefined
      const request = start(target, options, (response) => {
        arriving = response
        // The reader gets the error, too; without a listener it would end the program.
        response.on('error', () => {})
        resolve({ response, stop: () => clearTimeout(timer) })
      })
      const timer = setTimeout(() => {
        const error = timedOut(url, limitMs)
        arriving?.destroy(error)
        request.destroy(error)
      }, limitMs)
      request.on('error', (error) => {
        clearTimeout(timer)
        reject(explainConnection(url, error))
      })
      request.end(content)
    })
  }

  async function* readChunks(response: IncomingMessage): AsyncGenerator<Buffer, void> {
    try {
      yield* response
    } catch (error) {
      throw explainConnection(url, error)
    }
  }

  /** A proxy or a login page in front of a server responds to everything with success. */
  function assertType(response: IncomingMessage, ...types: string[]): void {
    const sent = response.headers['content-type'] ?? ''
    if (types.some((type) => sent.startsWith(type))) return
    response.destroy()
    throw notSvc(url)
  }

  /** The text of a response that arrives within the time limit. */
  async function readAll(response: IncomingMessage): Promise<string> {
    const chunks: Buffer[] = []
    let length = 0
    try {
      for await (const chunk of response) {
        length += chunk.length
        if (length > bodyMaxBytes) {
          response.destroy()
          throw new CommandError('unreachable', `The response of ${url} is too large.`)
        }
        chunks.push(chunk)
      }
    } catch (error) {
      throw explainConnection(url, error)
    }
    return Buffer.concat(chunks).toString('utf8')
  }

  async function assertSuccess(response: IncomingMessage): Promise<void> {
    const { statusCode: status = 0, headers } = response
    if (status >= 200 && status < 300) return
    if (status >= 300 && status < 400) {
      response.destroy()
      const location = printable(headers.location ?? 'another address')
      throw new CommandError(
        'unreachable',
        `${url} redirects to ${location}, which is not followed; log in with the final address of the server.`,
      )
    }
    throw explainProblem({ url, status, headers, text: await readAll(response) })
  }

  async function readJson(response: IncomingMessage): Promise<Json> {
    const text = await readAll(response)
    if (response.statusCode === 204 || text === '') return null
    try {
      const isJson = /\bjson\b/.test(response.headers['content-type'] ?? '')
      const body: Json = isJson ? JSON.parse(text) : null
      // Every response of svc that has JSON is an object or a list.
      if (body !== null && typeof body === 'object') return body
    } catch {
      // The same as another type.
    }
    throw notSvc(url)
  }

  async function fetchJson(request: ApiRequest): Promise<JsonResponse> {
    const { response, stop } = await send(request)
    try {
      await assertSuccess(response)
      return { body: await readJson(response), link: response.headers.link }
    } finally {
      stop()
    }
  }

  return {
    ...createApiClient(url, fetchJson),
    async text(request, type) {
      const { response, stop } = await send({ ...request, headers: { accept: '*/*' } })
      try {
        await assertSuccess(response)
        assertType(response, type)
        return await readAll(response)
      } finally {
        stop()
      }
    },
    async stream(request, ...types) {
      const headers = { ...request.headers, accept: types.join(', ') }
      const { response, stop } = await send({ ...request, headers })
      try {
        await assertSuccess(response)
        assertType(response, ...types)
      } finally {
        stop()
      }
      response.setTimeout(streamIdleMs, () => response.destroy(silent(url)))
      return readChunks(response)
    },
  }
}

type JsonResponse = { body: Json; link: string | string[] | undefined }

/** Reads lists page by page, with what performs an operation. */
export function createApiClient(
  url: string,
  fetchJson: (request: ApiRequest) => Promise<JsonResponse>,
): ApiClient {
  return {
    url,
    json: async (request) => (await fetchJson(request)).body,
    async list(request, limit = Number.POSITIVE_INFINITY, parameter = 'cursor') {
      const rows: Json[] = []
      for (let cursor = request.query?.[parameter]; ; ) {
        const query = {
          ...request.query,
          limit: Math.min(listPageSize, limit - rows.length),
          [parameter]: cursor,
        }
        const { body, link } = await fetchJson({ ...request, query })
        if (!Array.isArray(body)) throw notSvc(url)
        rows.push(...body)
        const next = nextOf(link, parameter)
        if (next === undefined || next === String(cursor) || rows.length >= limit) return rows
        cursor = next
      }
    },
  }
}

/** Encodes the parts of a path. A part that a URL would resolve, or an empty one, is refused. */
export function path(strings: TemplateStringsArray, ...parts: string[]): string {
  return String.raw({ raw: strings }, ...parts.map(encodePart))
}

/** Encodes a part of a path. */
export function encodePart(part: string): string {
  if (part === '' || part === '.' || part === '..') {
    throw new CommandError('failure', `"${part}" is not a valid name.`)
  }
  return encodeURIComponent(part)
}

function timedOut(url: string, limitMs: number): CommandError {
  const seconds = limitMs / 1000
  return new CommandError(
    'unreachable',
    `${url} does not respond within ${seconds} ${seconds === 1 ? 'second' : 'seconds'}; try again, or set --timeout.`,
  )
}

function silent(url: string): CommandError {
  const seconds = streamIdleMs / 1000
  return new CommandError(
    'unreachable',
    `${url} has sent nothing for ${seconds} seconds; try again.`,
  )
}

/** The error for a response that svc does not send. */
export function notSvc(url: string): CommandError {
  return new CommandError(
    'unreachable',
    `${url} does not respond as svc does; check the address of the server.`,
  )
}

// RFC 8288; the parameter alone is used, so that a server cannot lead the client to another address.
function nextOf(link: string | string[] | undefined, parameter: string): string | undefined {
  const [, target = ''] = /^<([^<>]*)>; ?rel="?next"?/.exec(String(link ?? '')) ?? []
  return URL.parse(target, 'http://localhost')?.searchParams.get(parameter) ?? undefined
}
