import type { Readable } from 'node:stream'
import { AwsV4Signer } from 'aws4fetch'
import { type Dispatcher, Pool } from 'undici'
import { createBackoff } from '#base/concurrency/backoff.ts'
import type { Log } from '#base/log.ts'
import type { Sensitive } from '#base/sensitive.ts'
import type { StoreAddress } from '#config/store-settings.ts'
import { createRangeConnections, type RangeTransfer } from './range-connection.ts'
import { connectionError, responseError, S3Error } from './s3-error.ts'

export type S3Credentials = {
  accessKeyId: Sensitive<string>
  secretAccessKey: Sensitive<string>
}

/** A request that anyone can make while its signature is valid. */
export type SignedRequest = { href: string; headers: Record<string, string> }

type S3Request = {
  /** The name of the operation in the S3 API, for errors and the log. */
  operation: string
  method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE'
  /** With the prefix of the store; empty for a request about the bucket. */
  key: string
  query?: Record<string, string>
  headers?: Record<string, string>
  body?: S3Body
  signal?: AbortSignal | undefined
  /** Time until the response begins, once the request is sent. */
  headersTimeoutMs?: number
}

/** What is sent, with its hashes, by which the store verifies it. */
export type S3Body = {
  bytes: number
  /** In base64. */
  md5: string
  /** In hex. */
  sha256: string
  /** Opens the bytes, once for each attempt. */
  open: () => Buffer | Readable
}

export type S3Response = {
  headers: Dispatcher.ResponseData['headers']
  body: Readable
  status: number
}

export type S3Requests = AsyncDisposable & {
  /**
   * Makes an idempotent request, and repeats it for some seconds when the connection fails or the store asks for it.
   * `read` reads the response within an attempt. Throws an S3Error.
   */
  send: <T>(request: S3Request, read: (response: S3Response) => Promise<T>) => Promise<T>
  /** Signs a GET for some seconds, by its address alone. */
  signGet: (key: string, seconds: number) => Promise<SignedRequest>
  /** Signs a PUT of bytes with a SHA-256, which the store verifies, by headers; stores accept it for 15 minutes. */
  signPut: (key: string, sha256: string) => Promise<SignedRequest>
  /**
   * Gets a range of an object with less CPU time. False over TLS, and when the store responds with anything but this
   * range: then nothing was written, and `send` is to get it, which understands every response.
   */
  getRange: (request: S3Request, transfer: RangeTransfer) => Promise<boolean>
}

type Options = {
  address: StoreAddress
  credentials: S3Credentials
  log: Log
  /** No attempt begins later than this after the first failure. */
  retryMs: number
  /** Time without a byte of the response. */
  timeoutMs: number
}

const maxConnections = 32
const maxRangeConnections = 16
const connectTimeoutMs = 3000
const keepAliveMs = 10_000
const firstPauseMs = 50
const maxPauseMs = 1000
const allowedSkewMs = 60_000
const maxErrorBytes = 16_384
const maxXmlBytes = 65_536
const emptySha256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'

export function createS3Requests(options: Options): S3Requests {
  const { address, credentials, log, retryMs, timeoutMs } = options
  const pool = new Pool(address.endpoint, {
    connections: maxConnections,
    pipelining: 1,
    allowH2: false,
    connect: { timeout: connectTimeoutMs },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    keepAliveTimeout: keepAliveMs,
  })
  const rangeConnections = createRangeConnections({
    endpoint: address.endpoint,
    connectTimeoutMs,
    timeoutMs,
    maxConnections: maxRangeConnections,
  })
  const clock = createStoreClock(log)
  // The signer derives a key for each day, and keeps it here.
  const derivedKeys = new Map<string, ArrayBuffer>()

  function urlOf(key: string): URL {
    const path = [address.bucket, ...(key === '' ? [] : key.split('/'))]
    return new URL(`/${path.map(encodeURIComponent).join('/')}`, address.endpoint)
  }

  const signature = (now: number) => ({
    accessKeyId: credentials.accessKeyId.reveal(),
    secretAccessKey: credentials.secretAccessKey.reveal(),
    service: 's3',
    region: address.region,
    datetime: new Date(now).toISOString().replace(/[:-]|\.\d{3}/g, ''),
  })

  async function sign(request: S3Request, now: number, sha256 = request.body?.sha256) {
    const { method, key, query, headers, body } = request
    const url = urlOf(key)
    for (const [name, value] of Object.entries(query ?? {})) url.searchParams.set(name, value)
    if (derivedKeys.size > 2) derivedKeys.clear()
    const signer = new AwsV4Signer({
      method,
      url: url.href,
      headers: {
        ...headers,
        ...(body && { 'content-md5': body.md5 }),
        'x-amz-content-sha256': sha256 ?? emptySha256,
      },
      ...signature(now),
      cache: derivedKeys,
    })
    const signed = await signer.sign()
    return {
      path: url.pathname + url.search,
      headers: {
        ...Object.fromEntries(signed.headers),
        ...(body && { 'content-length': String(body.bytes) }),
      },
    }
  }

  async function attempt<T>(request: S3Request, read: (response: S3Response) => Promise<T>) {
    const { method, body, signal, headersTimeoutMs } = request
    const signedAt = clock.now()
    const { path, headers } = await sign(request, signedAt)
    const response = await pool.request({
      method,
      path,
      headers,
      ...(signal && { signal }),
      body: body?.open() ?? null,
      ...(headersTimeoutMs && { headersTimeout: headersTimeoutMs }),
    })
    const { statusCode: status } = response
    try {
      if (status < 300) return await read({ ...response, status })
      const text = await startOf(response.body)
      const error = responseError(describe(request), status, text)
      if (status !== 403 || !clock.adjust(response.headers.date, signedAt)) throw error
      throw new S3Error('unavailable', error.message)
    } finally {
      // Closes the connection when the body was not read to its end.
      response.body.on('error', () => {}).destroy()
    }
  }

  async function repeat<T>(request: S3Request, attempt: () => Promise<T>): Promise<T> {
    const backoff = createBackoff({ firstMs: firstPauseMs, maxMs: maxPauseMs })
    const signal = request.signal ?? new AbortController().signal
    let giveUpAt = Number.POSITIVE_INFINITY
    for (;;) {
      try {
        return await attempt()
      } catch (thrown) {
        signal.throwIfAborted()
        const error = connectionError(describe(request), thrown)
        const isRetried = error instanceof S3Error && error.code === 'unavailable'
        if (!isRetried || pool.destroyed || performance.now() > giveUpAt) throw error
        if (giveUpAt === Number.POSITIVE_INFINITY) {
          giveUpAt = performance.now() + retryMs
          log.warn({ reason: error.message }, 'request to the object store repeated')
        }
      }
      await backoff.pause(signal)
    }
  }

  return {
    send: (request, read) => repeat(request, () => attempt(request, read)),

    async signGet(key, seconds) {
      const url = urlOf(key)
      url.searchParams.set('X-Amz-Expires', String(seconds))
      const options = { url: url.href, signQuery: true, ...signature(clock.now()) }
      const signed = await new AwsV4Signer(options).sign()
      return { href: signed.url.href, headers: {} }
    },

    async signPut(key, sha256) {
      const request = { operation: 'PutObject', method: 'PUT', key } as const
      const { path, headers } = await sign(request, clock.now(), sha256)
      return { href: address.endpoint + path, headers }
    },

    async getRange(request, transfer) {
      if (!address.endpoint.startsWith('http:')) return false
      return repeat(request, async () => {
        const signed = await sign(request, clock.now())
        const { signal = new AbortController().signal } = request
        return rangeConnections.get({ ...signed, ...transfer, signal })
      })
    },

    [Symbol.asyncDispose]() {
      rangeConnections[Symbol.dispose]()
      return pool.destroy()
    },
  }
}

/**
 * The time by which requests are signed. A store refuses those of a clock that is more than 15 minutes off; its own time
 * is in the header `date`.
 */
function createStoreClock(log: Log) {
  let aheadMs = 0
  return {
    now: () => Date.now() + aheadMs,

    /** Takes over the time of a response to a request; false when that was signed by hardly another one. */
    adjust(date: string | string[] | undefined, signedAt: number): boolean {
      const time = Date.parse(String(date))
      if (!(Math.abs(time - signedAt) > allowedSkewMs)) return false
      aheadMs = time - Date.now()
      log.warn({ aheadMs }, 'requests are signed by the clock of the object store')
      return true
    },
  }
}

function describe({ operation, key }: S3Request): string {
  return key === '' ? operation : `${operation} of ${key}`
}

/** The start of the body of an error response. */
async function startOf(body: Readable): Promise<string> {
  let text = ''
  for await (const chunk of body) {
    text += String(chunk)
    if (text.length >= maxErrorBytes) break
  }
  return text.slice(0, maxErrorBytes)
}

/** Reads a whole body of limited size. */
export async function readBytes(body: Readable, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > maxBytes) throw new S3Error('rejected', `A response has over ${maxBytes} bytes.`)
  }
  return Buffer.concat(chunks)
}

/** The same as text. */
export async function readBodyText(body: Readable, maxBytes: number): Promise<string> {
  return (await readBytes(body, maxBytes)).toString('utf8')
}

/** The size of an object by the headers of its response; not a number when it is unknown. */
export function sizeOfBody({ headers }: S3Response): number {
  return Number(headers['content-length'] ?? Number.NaN)
}

/** The size of an object; undefined when there is none. */
export async function findObjectSize(
  requests: S3Requests,
  key: string,
): Promise<number | undefined> {
  try {
    return await requests.send({ operation: 'HeadObject', method: 'HEAD', key }, async (response) =>
      sizeOfBody(response),
    )
  } catch (error) {
    if (error instanceof S3Error && error.code === 'absent') return undefined
    throw error
  }
}

/** Reads the short document of a response. */
export function readXml({ body }: S3Response): Promise<string> {
  return readBodyText(body, maxXmlBytes)
}
