import { createHash } from 'node:crypto'
import { closeSync, constants, fstatSync, openSync, readdirSync, readSync } from 'node:fs'
import { join } from 'node:path'

/** How much may still be read; every call reduces it. */
export type HashAllowance = {
  /** Files and directories. */
  entries: number
  /** Bytes of all files together. */
  bytes: number
}

/**
 * Lists the relative paths of all regular files below a directory, sorted, without links. Throws beyond the allowance.
 * Nothing may write there meanwhile.
 */
export function listRegularFiles(
  root: string,
  allowance: Pick<HashAllowance, 'entries'>,
): string[] {
  const found: string[] = []
  const open = ['']
  for (let folder = open.pop(); folder !== undefined; folder = open.pop()) {
    for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
      if (--allowance.entries < 0) throw new Error('there are too many files.')
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`
      if (entry.isDirectory()) open.push(path)
      else if (entry.isFile()) found.push(path)
    }
  }
  return found.sort()
}

/**
 * Hashes matching files as GitHub's `hashFiles` does: the SHA-256 of their SHA-256s in the order of their paths, in hex;
 * empty without a match. Throws beyond the allowance.
 */
export function hashMatching(
  root: string,
  matches: (path: string) => boolean,
  allowance: HashAllowance,
): string {
  const matching = listRegularFiles(root, allowance).filter(matches)
  const all = createHash('sha256')
  for (const path of matching) all.update(hashFile(root, path, allowance))
  return matching.length === 0 ? '' : all.digest('hex')
}

const chunk = Buffer.alloc(262_144)

function hashFile(root: string, path: string, allowance: HashAllowance): Buffer {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const descriptor = openSync(join(root, path), flags)
  try {
    if (!fstatSync(descriptor).isFile()) throw new Error(`${path} is no longer a file.`)
    const hash = createHash('sha256')
    for (let read = -1; read !== 0; allowance.bytes -= read) {
      read = readSync(descriptor, chunk)
      if (read > allowance.bytes) throw new Error('there is too much to read.')
      hash.update(chunk.subarray(0, read))
    }
    return hash.digest()
  } finally {
    closeSync(descriptor)
  }
}
