import { createHash } from 'node:crypto'
import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
  realpathSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'

/** How much may still be read; every call reduces it. */
export type HashAllowance = {
  /** Files and directories. */
  entries: number
  /** Bytes of all files together. */
  bytes: number
}

/** A folder as this process sees it, and its path in links within it. */
type Root = { folder: string; workspace: string }

/**
 * Hashes matching files as GitHub's `hashFiles` does: the SHA-256 of their SHA-256s in the order of their paths, in hex;
 * empty without a match. A link counts as the file that it leads to, if that is in the folder. Throws beyond the
 * allowance. Nothing may write there meanwhile.
 */
export function hashMatching(
  root: Root,
  matches: (path: string) => boolean,
  allowance: HashAllowance,
): string {
  const { files, links } = listFiles(root.folder, allowance)
  const targets = new Map<string, string>()
  for (const path of links.filter(matches)) {
    const target = targetOf(root, path)
    if (target !== undefined) targets.set(path, target)
  }
  const matching = [...files.filter(matches), ...targets.keys()].sort()
  const all = createHash('sha256')
  for (const path of matching) {
    all.update(hashFile(targets.get(path) ?? join(root.folder, path), allowance))
  }
  return matching.length === 0 ? '' : all.digest('hex')
}

/** The relative paths of all regular files and links below a directory. Throws beyond the allowance. */
function listFiles(
  root: string,
  allowance: Pick<HashAllowance, 'entries'>,
): { files: string[]; links: string[] } {
  const files: string[] = []
  const links: string[] = []
  const open = ['']
  for (let folder = open.pop(); folder !== undefined; folder = open.pop()) {
    for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
      if (--allowance.entries < 0) throw new Error('there are too many files.')
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`
      if (entry.isDirectory()) open.push(path)
      else if (entry.isFile()) files.push(path)
      else if (entry.isSymbolicLink()) links.push(path)
    }
  }
  return { files, links }
}

// Linux, MAXSYMLINKS.
const maxLinks = 40

/** The regular file in the folder that a link leads to; undefined if there is none. */
function targetOf({ folder, workspace }: Root, link: string): string | undefined {
  let path = join(folder, link)
  for (let count = 0; lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink(); count++) {
    if (count === maxLinks) return undefined
    const text = readlinkSync(path)
    path = text.startsWith(`${workspace}/`)
      ? join(folder, text.slice(workspace.length))
      : resolve(dirname(path), text)
  }
  const stat = lstatSync(path, { throwIfNoEntry: false })
  if (!stat?.isFile()) return undefined
  const real = realpathSync(path)
  return real.startsWith(`${realpathSync(folder)}/`) ? real : undefined
}

const chunk = Buffer.alloc(262_144)

function hashFile(path: string, allowance: HashAllowance): Buffer {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const descriptor = openSync(path, flags)
  try {
    if (!fstatSync(descriptor).isFile()) throw new Error('a file was replaced meanwhile.')
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
