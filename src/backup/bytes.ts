import { createHash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { openFile } from './tree.ts'

/** How long something is, and its SHA-256 in hex. */
export type ByteRange = { bytes: number; sha256: string }

const atOnceBytes = 1024 * 1024

/** Copies a file, or only reads it, a piece at a time; what it was. Stops once it is longer than `most`. */
export async function copyBytes(
  from: FileHandle,
  to: FileHandle | undefined,
  most = Number.POSITIVE_INFINITY,
): Promise<ByteRange> {
  const hash = createHash('sha256')
  const buffer = Buffer.allocUnsafe(atOnceBytes)
  let bytes = 0
  while (bytes <= most) {
    const { bytesRead } = await from.read(buffer, 0, atOnceBytes)
    if (bytesRead === 0) break
    const piece = buffer.subarray(0, bytesRead)
    hash.update(piece)
    if (to) await writeAll(to, piece)
    bytes += bytesRead
  }
  return { bytes, sha256: hash.digest('hex') }
}

export async function writeAll(to: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await to.write(bytes, done)
    done += bytesWritten
  }
}

/** Reads a file to its end. */
export async function measureFile(path: string, most?: number): Promise<ByteRange> {
  await using file = await openFile(path)
  return await copyBytes(file, undefined, most)
}
