import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import { chunksOf } from '#base/chunks.ts'
import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import { watchStall } from '#base/timeouts.ts'
import { trimEndOf } from '#base/trim-end.ts'
import type { LfsPointer } from '../objects/lfs-pointers.ts'
import { importFailed } from './import-error.ts'
import { type LfsReading, type LfsSource, maxConcurrentLfsObjects } from './lfs-source.ts'
import {
  isAsSecure,
  isRedirect,
  maxRedirects,
  redirectTarget,
  type SourceRequests,
} from './source-requests.ts'

/** Where an object can be downloaded. */
type Link = { pointer: LfsPointer; href: URL; headers: Record<string, string> }

type Reading = Pick<LfsReading, 'stallMs' | 'signal'>

const mediaType = 'application/vnd.git-lfs+json'
const batchMaxObjects = 100
// Links expire, so those of a batch must not wait long for the objects before them.
const batchMaxBytes = 1024 ** 3
const batchReplyMaxBytes = 8 * 1024 * 1024
const userAgent = 'svc'
// What belongs to a connection or a body is not for a server to choose.
const refusedHeaders =
  /^(?:host|connection|content-length|expect|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade)$/

/** The objects of a source over HTTP, by the batch API: https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md */
export function createRemoteLfsSource(requests: SourceRequests): LfsSource {
  return {
    async read({ pointers, lfsUrl, receive, onFault, stallMs, signal }) {
      const server = serverOf(requests.url, lfsUrl)
      if (!server) return onFault(importFailed('The source has its LFS objects at another server.'))
      let hasReplied = false
      for (const batch of toBatches(pointers)) {
        try {
          const links = await requestBatch(requests, { server, batch, onFault, stallMs, signal })
          hasReplied = true
          await forEachConcurrently(maxConcurrentLfsObjects, links, async (link) => {
            signal.throwIfAborted()
            await download(requests, link, { receive, stallMs, signal }).catch((error) => {
              signal.throwIfAborted()
              onFault(error)
            })
          })
        } catch (error) {
          signal.throwIfAborted()
          onFault(error)
          // The others would fail, too.
          if (!hasReplied) return
        }
      }
    },
  }
}

/** The address of the LFS server; undefined when the repository names one of another origin. */
function serverOf(source: URL, lfsUrl: string | undefined): URL | undefined {
  const repository = trimEndOf(source.href, '/')
  const usual = `${repository.replace(/\.git$/, '')}.git/info/lfs`
  const server = URL.parse(lfsUrl ?? usual)
  if (server?.origin !== source.origin) return undefined
  server.username = ''
  server.password = ''
  return server
}

function* toBatches(pointers: readonly LfsPointer[]): Generator<LfsPointer[]> {
  let batch: LfsPointer[] = []
  let bytes = 0
  for (const pointer of pointers) {
    const isFull = batch.length === batchMaxObjects || bytes + pointer.size > batchMaxBytes
    if (isFull && batch.length > 0) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push(pointer)
    bytes += pointer.size
  }
  if (batch.length > 0) yield batch
}

async function requestBatch(
  requests: SourceRequests,
  { server, batch, onFault, stallMs, signal }: BatchOptions,
): Promise<Link[]> {
  using stall = watchStall(stallMs, () => true, signal)
  const at = new URL(`${trimEndOf(server.href, '/')}/objects/batch`)
  const body = { operation: 'download', transfers: ['basic'], objects: batch, hash_algo: 'sha256' }
  const response = await follow(requests, at, {
    method: 'POST',
    headers: { accept: mediaType, 'content-type': mediaType, 'user-agent': userAgent },
    body: JSON.stringify(body),
    signal: stall.signal,
  })
  const reply = parse(await readText(response, stall))
  return toLinks(at, batch, reply, onFault)
}

type BatchOptions = Reading & {
  server: URL
  batch: LfsPointer[]
  onFault: (fault: unknown) => void
}

async function readText(
  response: IncomingMessage,
  stall: { signal: AbortSignal; progress: () => void },
): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of chunksOf(response, stall.signal)) {
      stall.progress()
      bytes += chunk.length
      if (bytes > batchReplyMaxBytes) throw importFailed('The LFS server sends too much.')
      chunks.push(chunk)
    }
  } finally {
    response.destroy()
  }
  return Buffer.concat(chunks).toString()
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw importFailed('The LFS server does not respond with JSON.')
  }
}

/** Reads the response to a batch, as far as it is about objects of that batch. */
function toLinks(
  from: URL,
  batch: LfsPointer[],
  reply: unknown,
  onFault: (fault: unknown) => void,
): Link[] {
  const { transfer = 'basic', objects } = Object(reply)
  if (transfer !== 'basic' || !Array.isArray(objects))
    throw importFailed('The LFS server does not speak the batch API with basic transfers.')
  const requested = new Map(batch.map((pointer) => [pointer.oid, pointer]))
  const links: Link[] = []
  for (const object of objects) {
    const { oid, actions } = Object(object)
    const pointer = requested.get(oid)
    if (!pointer) continue
    requested.delete(oid)
    const { href, header } = Object(Object(actions).download)
    const target = typeof href === 'string' ? URL.parse(href) : null
    if (target && isAsSecure(from, target) && target.username === '' && target.password === '')
      links.push({ pointer, href: target, headers: toHeaders(header) })
    else requested.set(oid, pointer)
  }
  const [lacking] = requested.keys()
  if (lacking !== undefined)
    onFault(importFailed(`The source has no LFS object ${lacking}, or no usable address of it.`))
  return links
}

function toHeaders(header: unknown): Record<string, string> {
  const named = Object.entries(Object(header)).map(
    ([name, value]) => [name.toLowerCase(), String(value)] as const,
  )
  return Object.fromEntries(named.filter(([name]) => !refusedHeaders.test(name)))
}

async function download(
  requests: SourceRequests,
  { pointer, href, headers }: Link,
  { receive, stallMs, signal }: Reading & Pick<LfsReading, 'receive'>,
): Promise<void> {
  // Once the response has begun, its receiver watches it.
  let isWaiting = true
  using stall = watchStall(stallMs, () => isWaiting, signal)
  const usual = { accept: '*/*', 'accept-encoding': 'identity', 'user-agent': userAgent }
  const response = await follow(requests, href, {
    method: 'GET',
    headers: { ...usual, ...headers },
    headersElsewhere: usual,
    signal: stall.signal,
  })
  isWaiting = false
  try {
    const { 'content-length': declared } = response.headers
    if (declared !== undefined && Number(declared) !== pointer.size)
      throw importFailed(`The source has an LFS object ${pointer.oid} of another size.`)
    await receive(pointer, response)
  } finally {
    response.destroy()
  }
}

type Following = {
  method: 'GET' | 'POST'
  headers: OutgoingHttpHeaders
  /** The headers for other origins, if they differ. */
  headersElsewhere?: OutgoingHttpHeaders
  body?: string
  signal: AbortSignal
}

/** Sends a request, and again where it is redirected to. Throws an `import_failed` unless the status is 200. */
async function follow(
  requests: SourceRequests,
  first: URL,
  { method, headers, headersElsewhere = headers, body, signal }: Following,
): Promise<IncomingMessage> {
  let at = first
  for (let redirects = 0; redirects <= maxRedirects; redirects++) {
    const sent = at.origin === first.origin ? headers : headersElsewhere
    const response = await requests.send(at, { method, headers: sent, signal }, body)
    if (response.statusCode === 200) return response
    response.destroy()
    if (!isRedirect(response))
      throw importFailed(`The LFS server answers with HTTP status ${response.statusCode}.`)
    at = redirectTarget(at, response)
    at.username = ''
    at.password = ''
  }
  throw importFailed('The LFS server redirects too often.')
}
