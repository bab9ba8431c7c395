import { createHash } from 'node:crypto'
import {
  commitType,
  inflateEntry,
  ofsDeltaType,
  patchedBy,
  readEntryHeader,
} from './pack-entries.ts'
import { packChecksumBytes, packHeaderBytes } from './pack-header.ts'

// Parsing blocks the event loop.
const maxObjects = 200
const objectsMaxBytes = 1024 * 1024

/**
 * Maps the commits of a pack to their parents, except commits stored as a delta to an object outside of the pack. `unknown`
 * when the pack cannot be parsed or is large, undefined when it is incomplete. See https://git-scm.com/docs/pack-format
 */
export function parentsIn(pack: Buffer): Map<string, string[]> | 'unknown' | undefined {
  if (pack.length < packHeaderBytes) return undefined
  if (pack.toString('latin1', 0, 4) !== 'PACK' || pack.readUInt32BE(4) !== 2) return 'unknown'
  const commits = new Map<number, Buffer>()
  const objects = pack.readUInt32BE(8)
  if (objects > maxObjects) return 'unknown'
  let place = packHeaderBytes
  let bytes = 0
  for (let number = 0; number < objects; number++) {
    const header = readEntryHeader(pack, place)
    if (!header) return undefined
    bytes += header.size
    if (bytes > objectsMaxBytes) return 'unknown'
    const found = inflateEntry(pack.subarray(header.end), header.size)
    if (!found || found === 'unknown') return found
    const base = commits.get(place - header.back)
    if (header.type === commitType) commits.set(place, found.content)
    if (header.type === ofsDeltaType && base) {
      const commit = patchedBy(base, found.content, objectsMaxBytes - bytes)
      if (!commit) return 'unknown'
      bytes += commit.length
      commits.set(place, commit)
    }
    place = header.end + found.length
  }
  if (pack.length < place + packChecksumBytes) return undefined
  return new Map([...commits.values()].map((commit) => [idOf(commit), parentsOf(commit)]))
}

function idOf(commit: Buffer): string {
  return createHash('sha1').update(`commit ${commit.length}\0`).update(commit).digest('hex')
}

// Like git's own parser, accepts a `parent` line only after the tree or another parent.
function parentsOf(commit: Buffer): string[] {
  const [, lines = ''] =
    /^tree [0-9a-f]{40}\n((?:parent [0-9a-f]{40}\n)*)/.exec(commit.toString('latin1')) ?? []
  return [...lines.matchAll(/[0-9a-f]{40}/g)].map(([id]) => id)
}
