import { createSemaphore } from '#base/concurrency/semaphore.ts'
import type { Log } from '#base/log.ts'
import type { StoreAddress } from '#config/store-settings.ts'
import { type ObjectSource, toS3Body, type WrittenFile } from './object-source.ts'
import { getObjectToFile } from './s3-download.ts'
import { S3Error } from './s3-error.ts'
import { type ListedObject, listPage, listStoredObjects } from './s3-listing.ts'
import { abortMultiparts } from './s3-multipart.ts'
import {
  createS3Requests,
  findObjectSize,
  readBytes,
  readXml,
  type S3Credentials,
  type SignedRequest,
} from './s3-requests.ts'
import { putObject, putWhileWritten } from './s3-upload.ts'

type Abortable = { signal?: AbortSignal }

type Range = { start: number; bytes: number }

/**
 * The objects of a bucket below the prefix of its address. Everything is verified: what is sent by the store, what is
 * received by its size, and by its SHA-256 where the caller knows it. Throws an S3Error, or the error of a local file.
 */
export type S3 = AsyncDisposable & {
  /** Stores an object durably. The key must be new: an object is never replaced by a different one. */
  put: (key: string, source: ObjectSource, options?: Abortable) => Promise<void>
  /**
   * Stores a file while it is written, so that little is left to do when it is complete; the object exists from then on.
   * Returns its size. `onBegin` is called before anything is sent.
   */
  putWhileWritten: (
    key: string,
    file: WrittenFile,
    options: Abortable & { onBegin: () => Promise<void> },
  ) => Promise<number>
  /** Writes an object of known size to a new file. Returns its SHA-256 in hex. */
  getToFile: (
    key: string,
    path: string,
    bytes: number,
    options?: Abortable,
  ) => Promise<{ sha256: string }>
  /** The content of an object, or of a range of it, of at most 64 MiB. */
  get: (key: string, options?: Abortable & { range?: Range }) => Promise<Buffer>
  /** Signs a download of an object for some seconds. */
  signGet: (key: string, seconds: number) => Promise<SignedRequest>
  /** Signs an upload of a new object for some minutes; see `verifiesUploads`. */
  signPut: (key: string, sha256: string) => Promise<SignedRequest>
  /** Whether the store refuses a signed upload of bytes with another SHA-256; a key that is not used otherwise. */
  verifiesUploads: (key: string) => Promise<boolean>
  head: (key: string) => Promise<{ bytes: number } | undefined>
  /** Deletes an object, and the parts of one that was never completed. Succeeds, too, when there is none. */
  delete: (key: string) => Promise<void>
  /** All objects whose keys begin with a prefix. */
  list: (prefix: string) => AsyncIterable<ListedObject>
  /** Succeeds when the bucket can be listed. */
  ping: () => Promise<void>
}

type Options = {
  address: StoreAddress
  credentials: S3Credentials
  log: Log
  /** Larger objects are stored in parts. */
  maxPutBytes?: number
  /** Larger objects are read in ranges. */
  maxGetBytes?: number
  /** The size of a part or range; at least 5 MiB, which stores require of parts. */
  partBytes?: number
  /** For how long failed requests are repeated. */
  retryMs?: number
  /** How long the store may send nothing. */
  timeoutMs?: number
}

const mib = 1024 * 1024
const maxBufferBytes = 64 * mib
// A client that has sent all waits for the parts that are being sent, and those of the other clients.
const streamedPartBytes = 8 * mib
const maxStreamedParts = 6
const hashMismatch = 'XAmzContentSHA256Mismatch'

export function createS3({ address, credentials, log, ...limits }: Options): S3 {
  const { maxPutBytes = 64 * mib, maxGetBytes = 32 * mib, partBytes = 16 * mib } = limits
  const { retryMs = 5000, timeoutMs = 15_000 } = limits
  const requests = createS3Requests({ address, credentials, log, retryMs, timeoutMs })
  const start = address.prefix === '' ? '' : `${address.prefix}/`
  const streamedParts = createSemaphore(maxStreamedParts)
  let mayListMultiparts = true

  /** Aborts what was never completed; a key may lack the right to list that. */
  async function abortPending(key: string): Promise<void> {
    if (!mayListMultiparts) return
    await abortMultiparts(requests, key).catch((error) => {
      if (!(error instanceof S3Error && error.code === 'rejected')) throw error
      mayListMultiparts = false
      log.warn({ reason: error.message }, 'parts of incomplete uploads stay in the object store')
    })
  }

  return {
    put: (key, source, { signal } = {}) =>
      putObject({ requests, key: start + key, source, signal, log, maxPutBytes, partBytes }),

    putWhileWritten: (key, source, options) =>
      putWhileWritten({
        ...{ requests, key: start + key, source, log, maxPutBytes },
        ...{ signal: undefined, partBytes: streamedPartBytes, permits: streamedParts, ...options },
      }),

    getToFile: (name, path, bytes, { signal } = {}) =>
      getObjectToFile({
        requests,
        key: start + name,
        path,
        bytes,
        signal,
        maxGetBytes,
        partBytes,
      }),

    get: (key, { signal, range } = {}) =>
      requests.send(
        {
          ...{ operation: 'GetObject', method: 'GET', key: start + key, signal },
          ...(range && { headers: { range: toRangeHeader(range) } }),
        },
        async ({ body, status }) => {
          const bytes = await readBytes(body, maxBufferBytes)
          if (!range || (status === 206 && bytes.length === range.bytes)) return bytes
          throw new S3Error('corrupt', `${bytes.length} bytes came of ${range.bytes} of ${key}.`)
        },
      ),

    signGet: (key, seconds) => requests.signGet(start + key, seconds),
    signPut: (key, sha256) => requests.signPut(start + key, sha256),

    async verifiesUploads(key) {
      const [sent, signed] = [Buffer.from('1'), Buffer.from('2')]
      const { md5 } = await toS3Body(sent)
      const { sha256 } = await toS3Body(signed)
      const body = { bytes: sent.length, md5, sha256, open: () => sent }
      const request = { operation: 'PutObject', method: 'PUT', key: start + key, body } as const
      try {
        await requests.send(request, readXml)
      } catch (error) {
        if (error instanceof S3Error && error.storeCode === hashMismatch) return true
        throw error
      }
      await requests.send(
        { operation: 'DeleteObject', method: 'DELETE', key: start + key },
        readXml,
      )
      return false
    },

    async head(key) {
      const bytes = await findObjectSize(requests, start + key)
      return bytes === undefined ? undefined : { bytes }
    },

    async delete(key) {
      await abortPending(start + key)
      const request = { operation: 'DeleteObject', method: 'DELETE', key: start + key } as const
      await requests.send(request, readXml)
    },

    async *list(prefix) {
      for await (const { key, ...rest } of listStoredObjects(requests, start + prefix)) {
        yield { key: key.slice(start.length), ...rest }
      }
    },

    async ping() {
      await listPage(requests, start, { 'max-keys': '1' })
    },

    [Symbol.asyncDispose]: () => requests[Symbol.asyncDispose](),
  }
}

function toRangeHeader({ start, bytes }: Range): string {
  return `bytes=${start}-${start + bytes - 1}`
}
