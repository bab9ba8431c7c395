import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import type { Readable } from 'node:stream'
import type { S3Body } from './s3-requests.ts'

/** The bytes of an object that is to be stored. */
export type ObjectSource = FileSource | Buffer
export type FileSource = { path: string; bytes: number }

/** A file that is stored while it is written. */
export type WrittenFile = {
  path: string
  maxBytes: number
  /**
   * Writes the file; returns its size. Calls `onWritten` with the size so far, and waits for it: it keeps the file from
   * being written faster than it is stored. When this fails, nothing is stored.
   */
  write: (onWritten: (bytes: number) => Promise<void>) => Promise<number>
}

/** Prepares the bytes of a source for sending. A file is read once for its hashes, and again for each attempt. */
export async function toS3Body(source: ObjectSource): Promise<S3Body> {
  return 'path' in source
    ? sliceBody(source, 0, source.bytes)
    : toBody(source.length, [source], () => source)
}

/** The same for a part of a file. */
export function sliceBody({ path }: FileSource, start: number, bytes: number): Promise<S3Body> {
  const open = () => createReadStream(path, { start, end: start + bytes - 1, highWaterMark })
  // A read stream cannot have an empty range.
  return bytes === 0 ? toS3Body(Buffer.alloc(0)) : toBody(bytes, open(), open)
}

const highWaterMark = 256 * 1024

async function toBody(
  bytes: number,
  chunks: Iterable<Buffer> | Readable,
  open: S3Body['open'],
): Promise<S3Body> {
  const [md5, sha256] = [createHash('md5'), createHash('sha256')]
  let found = 0
  for await (const chunk of chunks) {
    found += chunk.length
    md5.update(chunk)
    sha256.update(chunk)
  }
  if (found !== bytes) throw new Error(`${found} bytes found instead of ${bytes}`)
  return { bytes, md5: md5.digest('base64'), sha256: sha256.digest('hex'), open }
}
