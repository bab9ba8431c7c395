import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import {
  blobType,
  commitType,
  inflateEntry,
  ofsDeltaType,
  patchedBy,
  readEntryHeader,
  refDeltaType,
  tagType,
  treeType,
} from './pack-entries.ts'
import { packHeaderBytes } from './pack-header.ts'

export type PackedObject = { id: string; type: 'commit' | 'tree' | 'blob' | 'tag'; content: Buffer }

type Entry = { type: number; start: number; base: number | string; content: Buffer }
type Resolved = { type: number; content: Buffer }

// Parsing blocks the event loop.
const packMaxBytes = 128 * 1024
const maxObjects = 500
const objectsMaxBytes = 1024 * 1024

const indexHeaderBytes = 8
const fanOutBytes = 256 * 4
const idBytes = 20
const maxDepth = 100
const types = new Map([
  [commitType, 'commit'],
  [treeType, 'tree'],
  [blobType, 'blob'],
  [tagType, 'tag'],
] as const)

/**
 * Reads the objects in an object directory that has one small pack and nothing else, as git leaves it
 * for a pre-receive hook. It starts no git process. Undefined for any other directory.
 */
export async function readSmallPack(objects: string): Promise<PackedObject[] | undefined> {
  const folder = join(objects, 'pack')
  const names = await readdir(folder)
  const packs = names.filter((name) => name.endsWith('.pack'))
  const [name] = packs
  if (packs.length !== 1 || !name) return undefined
  const path = join(folder, name)
  if ((await stat(path)).size > packMaxBytes) return undefined
  const [pack, index] = await Promise.all([readFile(path), readFile(path.replace(/pack$/, 'idx'))])
  return readObjectsOf(pack, index)
}

/** The objects of a pack by its index; undefined when they exceed a limit. */
export function readObjectsOf(pack: Buffer, index: Buffer): PackedObject[] | undefined {
  if (pack.length < packHeaderBytes || index.length < indexHeaderBytes) return undefined
  const count = pack.readUInt32BE(8)
  if (count > maxObjects) return undefined
  const entries = readEntries(pack, count)
  const ids = readIds(index, count)
  if (!entries || !ids) return undefined
  const byStart = new Map(entries.map((entry) => [entry.start, entry]))
  const starts = new Map([...ids].map(([start, id]) => [id, start]))
  const resolved = new Map<number, Resolved>()
  let bytes = entries.reduce((sum, { content }) => sum + content.length, 0)

  function resolve(start: number, depth = 0): Resolved | undefined {
    const known = resolved.get(start)
    if (known) return known
    const entry = byStart.get(start)
    if (!entry || depth > maxDepth) return undefined
    const { type, base, content } = entry
    let result: Resolved | undefined = { type, content }
    if (type === ofsDeltaType || type === refDeltaType) {
      const below = resolve(typeof base === 'string' ? (starts.get(base) ?? -1) : base, depth + 1)
      const whole = below && patchedBy(below.content, content, objectsMaxBytes - bytes)
      bytes += whole?.length ?? 0
      result = below && whole && { type: below.type, content: whole }
    }
    if (result) resolved.set(start, result)
    return result
  }

  const objects: PackedObject[] = []
  for (const { start } of entries) {
    const object = resolve(start)
    if (!object) return undefined
    const type = types.get(object.type as typeof commitType)
    if (!type) return undefined
    objects.push({ id: ids.get(start) ?? '', type, content: object.content })
  }
  return objects
}

function readEntries(pack: Buffer, count: number): Entry[] | undefined {
  const entries: Entry[] = []
  let start = packHeaderBytes
  let bytes = 0
  for (let number = 0; number < count; number++) {
    const header = readEntryHeader(pack, start)
    bytes += header?.size ?? 0
    if (!header || bytes > objectsMaxBytes) return undefined
    const inflated = inflateEntry(pack.subarray(header.end), header.size)
    if (!inflated || inflated === 'unknown') return undefined
    const base = header.type === refDeltaType ? header.base : start - header.back
    entries.push({ type: header.type, start, base, content: inflated.content })
    start = header.end + inflated.length
  }
  return entries
}

/** Reads version 2 of an index: the ids of objects by where they start in the pack. */
function readIds(index: Buffer, count: number): Map<number, string> | undefined {
  const idsAt = indexHeaderBytes + fanOutBytes
  const offsetsAt = idsAt + count * (idBytes + 4)
  if (index.length < offsetsAt + count * 4 || index.readUInt32BE(4) !== 2) return undefined
  return new Map(
    Array.from({ length: count }, (_, number) => [
      index.readUInt32BE(offsetsAt + number * 4),
      index.toString('hex', idsAt + number * idBytes, idsAt + (number + 1) * idBytes),
    ]),
  )
}
