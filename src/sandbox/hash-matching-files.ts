import { createHash } from 'node:crypto'
import { closeSync, constants, fstatSync, openSync, readdirSync, readSync } from 'node:fs'
import { join } from 'node:path'

/** What may still be looked at; each look takes its part of it. */
export type HashAllowance = {
  /** Files and folders. */
  entries: number
  /** Bytes that are read, of all files together. */
  bytes: number
}

/**
 * The regular files beneath a folder, by their paths from it, sorted. Links are not followed, and are not
 * listed. Throws beyond the allowance, and where a folder cannot be read. Nothing may write there meanwhile.
 */
export function listFiles(root: string, left: Pick<HashAllowance, 'entries'>): string[] {
  const found: string[] = []
  const open = ['']
  for (let folder = open.pop(); folder !== undefined; folder = open.pop()) {
    for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
      if (--left.entries < 0) throw new Error('there are too many files to look at.')
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`
      if (entry.isDirectory()) open.push(path)
      else if (entry.isFile()) found.push(path)
    }
  }
  return found.sort()
}

/**
 * The SHA-256 in hex of the SHA-256s of all files beneath a folder that match, in the order of their paths, as
 * GitHub's `hashFiles` has it; empty when there are none. Throws beyond the allowance.
 */
export function hashMatching(
  root: string,
  matches: (path: string) => boolean,
  left: HashAllowance,
): string {
  const matching = listFiles(root, left).filter(matches)
  const all = createHash('sha256')
  for (const path of matching) all.update(hashFile(root, path, left))
  return matching.length === 0 ? '' : all.digest('hex')
}

const chunk = Buffer.alloc(262_144)

function hashFile(root: string, path: string, left: HashAllowance): Buffer {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const descriptor = openSync(join(root, path), flags)
  try {
    if (!fstatSync(descriptor).isFile()) throw new Error(`${path} is no file any more.`)
    const hash = createHash('sha256')
    for (let read = -1; read !== 0; left.bytes -= read) {
      read = readSync(descriptor, chunk)
      if (read > left.bytes) throw new Error('there is too much to read.')
      hash.update(chunk.subarray(0, read))
    }
    return hash.digest()
  } finally {
    closeSync(descriptor)
  }
}
