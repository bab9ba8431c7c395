import { createSemaphore, type Semaphore } from '#base/concurrency/semaphore.ts'
import type { Log } from '#base/log.ts'
import { type ObjectSource, toS3Body, type WrittenFile } from './object-source.ts'
import { beginMultipart, type Multipart } from './s3-multipart.ts'
import { readXml, type S3Body, type S3Requests } from './s3-requests.ts'

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

type Streaming = { permits: Semaphore; onBegin?: () => Promise<void> }

const maxParts = 10_000
const maxConcurrentParts = 4

/** Stores an object, in one request or in parts. */
export async function putObject({ source, ...rest }: Upload<ObjectSource>): Promise<void> {
  if (!('path' in source)) return putWhole(rest, await toS3Body(source))
  const { path, bytes } = source
  await putWhileWritten({
    ...rest,
    source: { path, maxBytes: bytes, write: async () => bytes },
    permits: createSemaphore(maxConcurrentParts),
  })
}

/**
 * Stores a file while it is written: each part is sent as soon as the file has more than it. The object is there when all
 * of it was written, or not at all. Returns its size. `onBegin` is called before anything is sent.
 */
export async function putWhileWritten({
  source,
  permits,
  onBegin = async () => {},
  ...upload
}: Upload<WrittenFile> & Streaming): Promise<number> {
  const { path, maxBytes, write } = source
  const partBytes = Math.max(upload.partBytes, Math.ceil(maxBytes / maxParts))
  let parts: Multipart | undefined

  async function begin(): Promise<Multipart> {
    await onBegin()
    return beginMultipart({ ...upload, path, permits })
  }

  try {
    const bytes = await write(async (written) => {
      while (written - (parts?.sentBytes() ?? 0) > partBytes) {
        parts ??= await begin()
        await parts.send(partBytes)
      }
    })
    if (bytes > upload.maxPutBytes) parts ??= await begin()
    if (parts) {
      while (parts.sentBytes() < bytes)
        await parts.send(Math.min(partBytes, bytes - parts.sentBytes()))
      await parts.complete()
    } else {
      await onBegin()
      await putWhole(upload, await toS3Body({ path, bytes }))
    }
    return bytes
  } catch (error) {
    await parts?.abort(error)
    throw error
  }
}

async function putWhole(
  { requests, key, signal }: Pick<Upload<unknown>, 'requests' | 'key' | 'signal'>,
  body: S3Body,
): Promise<void> {
  await requests.send({ operation: 'PutObject', method: 'PUT', key, body, signal }, readXml)
}
