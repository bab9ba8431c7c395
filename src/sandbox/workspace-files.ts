import {
  closeSync,
  constants,
  fchownSync,
  lstatSync,
  openSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname } from 'node:path'

/** What is not a file of a room that can be read, and why. */
export type Unreadable = 'absent' | 'not-a-file' | 'too-large'

/**
 * Reads a file that a step may have put there: never through a link at its place, never from a pipe or a
 * device, and no more than `maxBytes`. Nothing of the step may run any more, and the folder must be one that
 * steps cannot replace: those of a room are.
 */
export async function readSafely(path: string, maxBytes: number): Promise<Buffer | Unreadable> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const handle = await open(path, flags).catch(toUnreadable)
  if (typeof handle === 'string') return handle
  await using _closed = handle
  const stat = await handle.stat()
  if (!stat.isFile()) return 'not-a-file'
  if (stat.size > maxBytes) return 'too-large'
  // One more, to see whether it is longer than it said.
  const bytes = Buffer.alloc(stat.size + 1)
  let length = 0
  for (let read = -1; read !== 0 && length < bytes.length; length += read) {
    read = (await handle.read(bytes, length, bytes.length - length)).bytesRead
  }
  return length > stat.size ? 'too-large' : bytes.subarray(0, length)
}

// ELOOP: a link. ENXIO: a socket. EACCES: one that its owner has locked, for a runner who is not root.
function toUnreadable(error: unknown): Unreadable {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'ENOENT') return 'absent'
  if (code === 'ELOOP' || code === 'ENXIO' || code === 'EACCES') return 'not-a-file'
  throw error
}

/**
 * Writes a file for a step in one of the folders of its room, in place of whatever is there, so that it is the
 * step's own. Throws when a folder is in its place. At once: a step waits for several small ones.
 */
export function writeFresh(path: string, bytes: string | Uint8Array): void {
  rmSync(path, { force: true })
  const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants
  const descriptor = openSync(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
  try {
    const { uid, gid } = lstatSync(dirname(path))
    if (process.getuid?.() === 0) fchownSync(descriptor, uid, gid)
    writeFileSync(descriptor, bytes)
  } finally {
    closeSync(descriptor)
  }
}
