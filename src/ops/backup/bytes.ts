import { createHash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { writeAll } from '#base/disk.ts'
import { openFile } from './tree.ts'

/** Length in bytes, and SHA-256 in hex. */
export type ByteRange = { bytes: number; sha256: string }

const chunkBytes = 1024 * 1024

/** Bytes that are missing, or not those by whose SHA-256 they are named. */
export class ContentError extends Error {
  override readonly name = 'ContentError'
}

/** Copies chunks. Throws a ContentError if their SHA-256 is another one. */
export async function copyChunks(
  chunks: AsyncIterable<Buffer>,
  to: FileHandle,
  sha256: string,
): Promise<ByteRange> {
  const hash = createHash('sha256')
  let bytes = 0
  for await (const chunk of chunks) {
    hash.update(chunk)
    await writeAll(to, chunk)
    bytes += chunk.length
  }
  if (hash.digest('hex') !== sha256) throw new ContentError()
  return { bytes, sha256 }
}

/** Copies a file, or only reads it if `to` is undefined, and measures it. Stops after more than `maxBytes`. */
export async function copyBytes(
  from: FileHandle,
  to: FileHandle | undefined,
  maxBytes = Number.POSITIVE_INFINITY,
): Promise<ByteRange> {
  const hash = createHash('sha256')
  const buffer = Buffer.allocUnsafe(chunkBytes)
  let bytes = 0
  while (bytes <= maxBytes) {
    const { bytesRead } = await from.read(buffer, 0, chunkBytes)
    if (bytesRead === 0) break
    const chunk = buffer.subarray(0, bytesRead)
    hash.update(chunk)
    if (to) await writeAll(to, chunk)
    bytes += bytesRead
  }
  return { bytes, sha256: hash.digest('hex') }
}

/** Measures a file by reading it. */
export async function measureFile(path: string, maxBytes?: number): Promise<ByteRange> {
  await using file = await openFile(path)
  return await copyBytes(file, undefined, maxBytes)
}
