import { createHash } from 'node:crypto'
import {
  commitType,
  inflateEntry,
  ofsDeltaType,
  patchedBy,
  readEntryHeader,
} from '../../../git/objects/pack-entries.ts'

// Parsing blocks the event loop. A pack is parsed from its start for each chunk.
const packMaxBytes = 64 * 1024
const maxChunks = 16
const maxObjects = 200
const objectsMaxBytes = 1024 * 1024

const headerBytes = 12
const trailerBytes = 20

/**
 * `apart` when the pack has the commit's whole history; `unknown` when the pack cannot be parsed; undefined while it is
 * incomplete.
 */
type BuildsOn = 'yes' | 'apart' | 'no' | 'unknown' | undefined

type Update = Record<'before' | 'after', string>

/** Parses a pushed pack as it arrives after the commands of a push. */
export function createPackInspector(update: Update, commandBytes: number) {
  const chunks: Buffer[] = []
  return {
    /** Adds a chunk of the request; undefined while more are needed. */
    add(chunk: Buffer): BuildsOn {
      chunks.push(chunk)
      const pack = Buffer.concat(chunks).subarray(commandBytes)
      if (chunks.length > maxChunks || pack.length > packMaxBytes) return 'unknown'
      return buildsOn(pack, update)
    },
  }
}

/**
 * Whether the history of `after` consists of new commits in a small pack, all based on `before`; then the update is a
 * fast-forward. See https://git-scm.com/docs/pack-format
 */
export function buildsOn(pack: Buffer, { before, after }: Update): BuildsOn {
  const parents = parentsIn(pack)
  if (!(parents instanceof Map)) return parents
  const waiting = [after]
  const seen = new Set<string>()
  let isReached = false
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    isReached ||= id === before
    if (seen.has(id) || id === before) continue
    seen.add(id)
    const known = parents.get(id)
    if (!known) return 'no'
    waiting.push(...known)
  }
  return isReached ? 'yes' : 'apart'
}

// Maps the commits of a pack to their parents, except commits stored as a delta to an object outside of the pack.
function parentsIn(pack: Buffer): Map<string, string[]> | 'unknown' | undefined {
  if (pack.length < headerBytes) return undefined
  if (pack.toString('latin1', 0, 4) !== 'PACK' || pack.readUInt32BE(4) !== 2) return 'unknown'
  const commits = new Map<number, Buffer>()
  const objects = pack.readUInt32BE(8)
  if (objects > maxObjects) return 'unknown'
  let place = headerBytes
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
  if (pack.length < place + trailerBytes) return undefined
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
