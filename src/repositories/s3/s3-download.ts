import { type FileHandle, open, rm } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { inBatches } from '#base/chunks.ts'
import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import { createPrefixHash } from './prefix-hash.ts'
import type { ObjectRange } from './range-connection.ts'
import { S3Error } from './s3-error.ts'
import { type S3Requests, type S3Response, sizeOfBody } from './s3-requests.ts'

type Download = {
  requests: S3Requests
  key: string
  signal: AbortSignal | undefined
  /** The size that the object must have. */
  bytes: number
  /** A new file. */
  path: string
  /** Larger objects are read in ranges. */
  maxGetBytes: number
  /** The size of a range. */
  partBytes: number
}

const maxConcurrentRanges = 8
// Less is not worth a connection.
const minRangeBytes = 1024 * 1024
// A write costs a switch to another thread; a larger one takes contiguous memory.
const writeBytes = 256 * 1024

/** Writes an object to a new file; returns its SHA-256 in hex. No file is left after an error. */
export async function getObjectToFile(download: Download): Promise<{ sha256: string }> {
  const { path, bytes, maxGetBytes, partBytes } = download
  await using file = await open(path, 'wx+')
  try {
    const rangeBytes = bytes > maxGetBytes ? partBytes : bytes
    await using hash = createPrefixHash(file)
    await forEachConcurrently(maxConcurrentRanges, rangesOf(bytes, rangeBytes), async (range) => {
      await getRange(download, file, range)
      hash.add(range)
    })
    return { sha256: await hash.digest() }
  } catch (error) {
    await rm(path, { force: true })
    throw error
  }
}

/** At least one range: an empty object is requested, too. */
function* rangesOf(bytes: number, rangeBytes: number): Generator<ObjectRange, void, undefined> {
  let start = 0
  do {
    yield { start, bytes: Math.min(rangeBytes, bytes - start) }
    start += rangeBytes
  } while (start < bytes)
}

async function getRange(download: Download, file: FileHandle, range: ObjectRange): Promise<void> {
  const { requests, key, signal, bytes: total } = download
  const isComplete = range.bytes === total
  const request = { operation: 'GetObject', method: 'GET', key, signal } as const
  if (range.bytes >= minRangeBytes) {
    const write = (bytes: Buffer, position: number) => file.write(bytes, 0, bytes.length, position)
    if (await requests.getRange(request, { range, total, write })) return
  }
  const headers = isComplete
    ? {}
    : { range: `bytes=${range.start}-${range.start + range.bytes - 1}` }
  await requests.send({ ...request, headers }, async (response) => {
    const found = isComplete ? sizeOfBody(response) : totalOf(response)
    if (found !== total) throw new S3Error('corrupt', `${key} has ${found} bytes, not ${total}.`)
    const written = await writeAt(file, range, response.body)
    if (written === range.bytes) return
    throw new S3Error('corrupt', `${written} bytes came of ${range.bytes} of ${key}.`)
  })
}

/** The size of the whole object in a response with a range of it: RFC 9110, section 14.4. */
function totalOf({ status, headers }: S3Response): number {
  const [, total] = String(headers['content-range']).split('/')
  return status === 206 ? Number(total) : Number.NaN
}

/** Writes a body to its place in a file, and no byte beyond it; returns the number of bytes that came. */
async function writeAt(file: FileHandle, range: ObjectRange, body: Readable): Promise<number> {
  let written = 0
  for await (const chunks of inBatches(body, writeBytes)) {
    const bytes = chunks.reduce((sum, { length }) => sum + length, 0)
    if (written + bytes > range.bytes) return written + bytes
    await file.writev(chunks, range.start + written)
    written += bytes
  }
  return written
}
