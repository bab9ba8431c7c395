import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import type { Log } from '#base/log.ts'
import { type FileSource, type ObjectSource, sliceBody, toS3Body } from './object-source.ts'
import { responseError, S3Error } from './s3-error.ts'
import { readBodyText, type S3Requests, type S3Response, sizeOfBody } from './s3-requests.ts'
import { elementText, escapeXml } from './xml-elements.ts'

type Upload<Source> = {
  requests: S3Requests
  key: string
  source: Source
  signal: AbortSignal | undefined
  log: Log
  /** Larger objects are stored in parts. */
  maxPutBytes: number
  /** The size of a part; parts of very large objects are larger. */
  partBytes: number
}

const maxConcurrentParts = 4
const maxParts = 10_000
const maxXmlBytes = 65_536
// Joining the parts of a large object takes the store some time.
const completionTimeoutMs = 60_000

/** Stores an object, in one request or in parts. */
export async function putObject({ source, ...rest }: Upload<ObjectSource>): Promise<void> {
  const { requests, key, signal, maxPutBytes } = rest
  if ('path' in source && source.bytes > maxPutBytes) {
    await putInParts({ source, ...rest })
    return
  }
  const body = await toS3Body(source)
  await requests.send({ operation: 'PutObject', method: 'PUT', key, body, signal }, readXml)
}

async function putInParts(upload: Upload<FileSource>): Promise<void> {
  const { requests, key, signal, log } = upload
  const create = { operation: 'CreateMultipartUpload', method: 'POST', key, signal } as const
  const created = await requests.send({ ...create, query: { uploads: '' } }, readXml)
  const uploadId = elementText(created, 'UploadId')
  if (!uploadId) throw new S3Error('rejected', `${create.operation} of ${key} returned no id.`)
  try {
    const parts = await putParts(upload, uploadId)
    await complete(upload, uploadId, parts)
  } catch (error) {
    const abort = { operation: 'AbortMultipartUpload', method: 'DELETE', key } as const
    await requests.send({ ...abort, query: { uploadId } }, readXml).catch((fault) => {
      if (fault.storeCode === 'NoSuchUpload') return
      log.warn({ err: fault }, 'parts of a failed upload left in the object store')
    })
    throw error
  }
}

/** Stores the parts; returns their entity tags. */
async function putParts(upload: Upload<FileSource>, uploadId: string): Promise<string[]> {
  const { requests, key, source, signal } = upload
  const partBytes = Math.max(upload.partBytes, Math.ceil(source.bytes / maxParts))
  const tags = new Array<string>(Math.ceil(source.bytes / partBytes)).fill('')
  await forEachConcurrently(maxConcurrentParts, tags.keys(), async (index) => {
    const start = index * partBytes
    const body = await sliceBody(source, start, Math.min(partBytes, source.bytes - start))
    const query = { partNumber: String(index + 1), uploadId }
    const request = { operation: 'UploadPart', method: 'PUT', key, query, body, signal } as const
    tags[index] = await requests.send(request, async (response) => {
      await readXml(response)
      return String(response.headers.etag)
    })
  })
  return tags
}

async function complete(
  { requests, key, source, signal }: Upload<FileSource>,
  uploadId: string,
  tags: string[],
): Promise<void> {
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
    if (!isRepeated || (await findObjectSize(requests, key)) !== source.bytes) throw error
  }
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

/** Reads the short document that answers a request. */
function readXml({ body }: S3Response): Promise<string> {
  return readBodyText(body, maxXmlBytes)
}
