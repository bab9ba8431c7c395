import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { type FileHandle, open, readdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { forEachConcurrently } from './for-each-concurrently.ts'

// Per directory level, so a deep tree has at most a few hundred open files.
const maxConcurrency = 4

/** Flushes a file's content, or a directory's entries, to disk: fsync(2). */
export async function sync(path: string): Promise<void> {
  await using handle = await open(path)
  await handle.sync()
}

/** Writes a new file and flushes it to disk. */
export async function writeSynced(path: string, content: string): Promise<void> {
  await writeFile(path, content, { flag: 'wx', flush: true })
}

/**
 * Replaces a file of a folder at once, without flushing it to disk. A draft that a killed process left is overwritten by
 * the next one.
 */
export async function replaceFile(
  folder: string,
  name: string,
  content: string | Buffer,
): Promise<void> {
  const draft = join(folder, `svc-${name}`)
  await writeFile(draft, content, { mode: 0o600 })
  await rename(draft, join(folder, name))
}

/** The SHA-256 of a file's content, in hex. */
export async function hashFile(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path)) hash.update(chunk)
  return hash.digest('hex')
}

/** Writes all bytes at a position of a file, by default where the last write ended. */
export async function writeAll(file: FileHandle, bytes: Uint8Array, at?: number): Promise<void> {
  for (let written = 0; written < bytes.length; ) {
    const position = at === undefined ? null : at + written
    const rest = bytes.length - written
    written += (await file.write(bytes, written, rest, position)).bytesWritten
  }
}

/** Fills a buffer from a position of a file. Throws when the file ends before. */
export async function readAll(file: FileHandle, buffer: Uint8Array, at: number): Promise<void> {
  for (let done = 0; done < buffer.length; ) {
    const { bytesRead } = await file.read(buffer, done, buffer.length - done, at + done)
    if (bytesRead === 0) throw new Error('The file ends before the bytes that are to be read')
    done += bytesRead
  }
}

/** Flushes a directory and everything in it to disk. */
export async function syncTree(folder: string): Promise<void> {
  // Concurrent flushes can share writes to the disk.
  await forEachConcurrently(
    maxConcurrency,
    await readdir(folder, { withFileTypes: true }),
    async (entry) => {
      const path = join(folder, entry.name)
      await (entry.isDirectory() ? syncTree(path) : sync(path))
    },
  )
  await sync(folder)
}
