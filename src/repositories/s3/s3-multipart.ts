import type { Semaphore } from '#base/concurrency/semaphore.ts'
import type { Log } from '#base/log.ts'
import { sliceBody, toS3Body } from './object-source.ts'
import { responseError, S3Error } from './s3-error.ts'
import { findObjectSize, readXml, type S3Requests } from './s3-requests.ts'
import { elementsOf, elementText, escapeXml } from './xml-elements.ts'

/** An object that is stored in parts, and exists when it is complete. */
export type Multipart = {
  /** The sum of the parts so far. */
  sentBytes: () => number
  /** Begins to send the next bytes of the file; waits while too many parts are being sent. Throws the error of another part. */
  send: (bytes: number) => Promise<void>
  complete: () => Promise<void>
  /** Ends it after an error. */
  abort: (error: unknown) => Promise<void>
}

type Options = {
  requests: S3Requests
  key: string
  /** The file that has the bytes. */
  path: string
  signal: AbortSignal | undefined
  /** Each part that is being sent has one. */
  permits: Semaphore
  log: Log
}

// Joining the parts of a large object takes the store some time.
const completionTimeoutMs = 60_000

/** Begins to store an object in parts. */
export async function beginMultipart(options: Options): Promise<Multipart> {
  const { requests, key, path, signal: outer, permits, log } = options
  const uploadId = await createMultipart(options)
  const failure = new AbortController()
  const signal = outer ? AbortSignal.any([outer, failure.signal]) : failure.signal
  const parts: Promise<string>[] = []
  let sentBytes = 0

  /** Returns the entity tag. */
  async function putPart(partNumber: number, start: number, bytes: number): Promise<string> {
    const body = await sliceBody({ path, bytes }, start, bytes)
    const query = { partNumber: String(partNumber), uploadId }
    const request = { operation: 'UploadPart', method: 'PUT', key, query, body, signal } as const
    return requests.send(request, async (response) => {
      await readXml(response)
      return String(response.headers.etag)
    })
  }

  return {
    sentBytes: () => sentBytes,

    async send(bytes) {
      const permit = await permits.acquire(signal)
      const part = putPart(parts.length + 1, sentBytes, bytes)
      sentBytes += bytes
      parts.push(part)
      part.catch((error) => failure.abort(error)).finally(() => permit[Symbol.dispose]())
    },

    async complete() {
      const tags = await Promise.all(parts)
      await completeMultipart({ requests, key, signal, uploadId, tags, bytes: sentBytes })
    },

    async abort(error) {
      failure.abort(error)
      await Promise.allSettled(parts)
      await abortUpload(requests, key, uploadId).catch((fault) =>
        log.warn({ err: fault }, 'parts of a failed upload left in the object store'),
      )
    },
  }
}

/** Returns the id of the upload. */
async function createMultipart({ requests, key, signal }: Options): Promise<string> {
  const create = { operation: 'CreateMultipartUpload', method: 'POST', key, signal } as const
  const created = await requests.send({ ...create, query: { uploads: '' } }, readXml)
  const uploadId = elementText(created, 'UploadId')
  if (uploadId) return uploadId
  throw new S3Error('rejected', `${create.operation} of ${key} returned no id.`)
}

type Completion = {
  requests: S3Requests
  key: string
  signal: AbortSignal
  uploadId: string
  /** The entity tags of the parts. */
  tags: string[]
  bytes: number
}

async function completeMultipart({
  requests,
  key,
  signal,
  uploadId,
  tags,
  bytes,
}: Completion): Promise<void> {
  const parts = tags.map(
    (tag, index) =>
      `<Part><PartNumber>${index + 1}</PartNumber><ETag>${escapeXml(tag)}</ETag></Part>`,
  )
  const xml = `<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`
  const request = {
    operation: 'CompleteMultipartUpload',
    method: 'POST',
    key,
    query: { uploadId },
    body: await toS3Body(Buffer.from(xml)),
    signal,
    headersTimeoutMs: completionTimeoutMs,
  } as const
  try {
    await requests.send(request, async (response) => {
      const result = await readXml(response)
      // The store begins its response before it knows the outcome.
      if (elementText(result, 'Error') === undefined) return
      throw responseError(`${request.operation} of ${key}`, response.status, result)
    })
  } catch (error) {
    // An attempt whose response was lost may have succeeded, and then the upload does not exist any more.
    const isRepeated = error instanceof S3Error && error.storeCode === 'NoSuchUpload'
    if (!isRepeated || (await findObjectSize(requests, key)) !== bytes) throw error
  }
}

/** Aborts the uploads in parts of an object that were never completed, as a killed server leaves them. */
export async function abortMultiparts(requests: S3Requests, key: string): Promise<void> {
  const list = { operation: 'ListMultipartUploads', method: 'GET', key: '' } as const
  // Some stores list only those of one key.
  const query = { uploads: '', prefix: key, 'max-uploads': '50' }
  const listed = await requests.send({ ...list, query }, readXml)
  for (const upload of elementsOf(listed, 'Upload')) {
    if (elementText(upload, 'Key') !== key) continue
    await abortUpload(requests, key, elementText(upload, 'UploadId') ?? '')
  }
}

async function abortUpload(requests: S3Requests, key: string, uploadId: string): Promise<void> {
  const abort = { operation: 'AbortMultipartUpload', method: 'DELETE', key } as const
  try {
    await requests.send({ ...abort, query: { uploadId } }, readXml)
  } catch (error) {
    if (error instanceof S3Error && error.storeCode === 'NoSuchUpload') return
    throw error
  }
}
