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
import { codeOf } from '#base/error-code.ts'

/** Why a file of a workspace cannot be read. */
export type Unreadable = 'absent' | 'not-a-file' | 'too-large'

/**
 * Reads an untrusted file: never through a link, never from a pipe or device, and at most `maxBytes`. No process of
 * the step may run, and its directory must be one of the workspace's own, which steps cannot replace.
 */
export async function readSafely(path: string, maxBytes: number): Promise<Buffer | Unreadable> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const handle = await open(path, flags).catch(toUnreadable)
  if (typeof handle === 'string') return handle
  await using _closed = handle
  const stat = await handle.stat()
  if (!stat.isFile()) return 'not-a-file'
  if (stat.size > maxBytes) return 'too-large'
  // One more byte, to notice that the file has grown.
  const bytes = Buffer.alloc(stat.size + 1)
  let length = 0
  for (let read = -1; read !== 0 && length < bytes.length; length += read) {
    read = (await handle.read(bytes, length, bytes.length - length)).bytesRead
  }
  return length > stat.size ? 'too-large' : bytes.subarray(0, length)
}

// ELOOP: a link. ENXIO: a socket. EACCES: a file without read permission, when the runner is not root.
function toUnreadable(error: unknown): Unreadable {
  const code = codeOf(error)
  if (code === 'ENOENT') return 'absent'
  if (code === 'ELOOP' || code === 'ENXIO' || code === 'EACCES') return 'not-a-file'
  throw error
}

/**
 * Replaces a file in one of the directories of a workspace; it belongs to the directory's owner. Throws when a
 * directory has its name. Synchronous, because a step waits for several small files.
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
