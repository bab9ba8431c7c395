import { createHash } from 'node:crypto'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { promisify } from 'node:util'
import { deflate, deflateSync, inflateSync } from 'node:zlib'
import { formatOf, idBytes, type ObjectFormat } from '#base/object-id.ts'
import { headOfCommit } from './commit-object.ts'
import { idOfObject, type NewObject } from './new-objects.ts'

/** An object of a pack: https://git-scm.com/docs/pack-format */
export type PackedObject = { id: string; type: 'commit' | 'tree' | 'blob' | 'tag'; content: Buffer }

/** The size of the header of a pack. Its last bytes are its checksum, in the repository's object format. */
export const packHeaderBytes = 12

const types = new Map<number, PackedObject['type']>([
  [1, 'commit'],
  [2, 'tree'],
  [3, 'blob'],
  [4, 'tag'],
])
const ofsDeltaType = 6
const refDeltaType = 7

// Parsing blocks the event loop.
const packMaxBytes = 128 * 1024
const objectsMaxBytes = 1024 * 1024
const parsedObjects = { few: 200, many: 500 }

// Larger ones are deflated by another thread.
const syncMaxBytes = 32 * 1024
const chunkBytes = 64 * 1024
const deflateLater = promisify(deflate)

/**
 * Reads the objects in an object directory that has one small pack and nothing else, as git leaves it
 * for a pre-receive hook. It starts no git process. Undefined for any other directory.
 */
export async function readSmallPack(objects: string): Promise<PackedObject[] | undefined> {
  const folder = join(objects, 'pack')
  const packs = (await readdir(folder)).filter((name) => name.endsWith('.pack'))
  const [name] = packs
  if (packs.length !== 1 || !name) return undefined
  const path = join(folder, name)
  if ((await stat(path)).size > packMaxBytes) return undefined
  const pack = await readFile(path)
  // Git names a pack by its checksum.
  const format = formatOf(name.slice('pack-'.length, -'.pack'.length))
  const found = readPack(pack, parsedObjects.many, format)
  const isWhole = Array.isArray(found) && found.length === countOf(pack)
  return isWhole ? found : undefined
}

/**
 * Maps the commits of a pack to their parents, except commits stored as a delta to an object outside of the pack. `unknown`
 * when the pack cannot be parsed or is large, undefined when it is incomplete.
 */
export function parentsIn(
  pack: Buffer,
  format: ObjectFormat,
): Map<string, string[]> | 'unknown' | undefined {
  const objects = readPack(pack, parsedObjects.few, format)
  if (!Array.isArray(objects)) return objects
  const commits = objects.filter(({ type }) => type === 'commit')
  return new Map(commits.map(({ id, content }) => [id, headOfCommit(content).parents]))
}

/**
 * The objects of a pack in their order, except deltas to objects outside of the pack. `unknown` when the pack cannot be
 * parsed or exceeds a limit, undefined when it is incomplete.
 */
export function readPack(
  pack: Buffer,
  maxObjects: number,
  format: ObjectFormat,
): PackedObject[] | 'unknown' | undefined {
  const entries = readEntries(pack, maxObjects, format)
  if (!Array.isArray(entries)) return entries
  let left = objectsMaxBytes - entries.reduce((sum, { content }) => sum + content.length, 0)
  const byPlace = new Map<number, PackedObject>()
  const places = new Map<string, number>()
  // The base of a delta by id may follow it.
  for (let waiting = entries; ; ) {
    const deltas: Entry[] = []
    for (const entry of waiting) {
      const { place, base } = entry
      const below = byPlace.get((typeof base === 'string' ? places.get(base) : base) ?? -1)
      const type = types.get(entry.type) ?? below?.type
      if (!type) {
        deltas.push(entry)
        continue
      }
      const content = below ? patchedBy(below.content, entry.content, left) : entry.content
      if (!content) return 'unknown'
      if (below) left -= content.length
      const id = idOfObject(type, content, format)
      byPlace.set(place, { id, type, content })
      places.set(id, place)
    }
    if (deltas.length === 0 || deltas.length === waiting.length) break
    waiting = deltas
  }
  return entries.flatMap(({ place }) => byPlace.get(place) ?? [])
}

/** An entry at a place in a pack; the base of a delta is a place or an id. */
type Entry = { type: number; place: number; base: number | string | undefined; content: Buffer }

function readEntries(
  pack: Buffer,
  maxObjects: number,
  format: ObjectFormat,
): Entry[] | 'unknown' | undefined {
  if (pack.length < packHeaderBytes) return undefined
  const count = countOf(pack)
  if (!pack.subarray(0, packHeaderBytes).equals(packHeader(count)) || count > maxObjects)
    return 'unknown'
  const entries: Entry[] = []
  let place = packHeaderBytes
  let left = objectsMaxBytes
  while (entries.length < count) {
    const header = readEntryHeader(pack, place, format)
    if (!header) return undefined
    left -= header.size
    if (left < 0) return 'unknown'
    const inflated = inflateEntry(pack.subarray(header.end), header.size)
    if (!inflated || inflated === 'unknown') return inflated
    const { content, length } = inflated
    entries.push({ type: header.type, place, base: header.base, content })
    place = header.end + length
  }
  return pack.length < place + idBytes(format) ? undefined : entries
}

type EntryHeader = {
  type: number
  /** Of its inflated content. */
  size: number
  /** The base object of a delta: its place, or its id. */
  base: number | string | undefined
  /** Where its content starts. */
  end: number
}

/** The header of an entry of a pack; undefined when the pack ends before. */
function readEntryHeader(
  pack: Buffer,
  place: number,
  format: ObjectFormat,
): EntryHeader | undefined {
  let end = place
  const next = () => pack[end++] ?? 0
  let byte = next()
  const type = (byte >> 4) & 7
  let size = byte & 15
  for (let shift = 4; byte >= 128; shift += 7) {
    byte = next()
    size += (byte & 127) * 2 ** shift
  }
  let base: number | string | undefined
  if (type === refDeltaType) {
    base = pack.toString('hex', end, end + idBytes(format))
    end += idBytes(format)
  }
  if (type === ofsDeltaType) {
    byte = next()
    let back = byte & 127
    while (byte >= 128) {
      byte = next()
      back = (back + 1) * 128 + (byte & 127)
    }
    base = place - back
  }
  return end < pack.length ? { type, size, base, end } : undefined
}

/**
 * Applies a delta: two sizes, then instructions to copy a range of the base or to insert bytes. Undefined when the result
 * would have more than `maxBytes`.
 */
function patchedBy(base: Buffer, delta: Buffer, maxBytes: number): Buffer | undefined {
  let place = 0
  let left = maxBytes
  const next = () => delta[place++] ?? 0
  for (let sizes = 0; sizes < 2; sizes++) while (next() >= 128);
  const pieces: Buffer[] = []
  const number = (bits: number, bytes: number) => {
    let value = 0
    for (let byte = 0; byte < bytes; byte++) if (bits & (1 << byte)) value += next() * 256 ** byte
    return value
  }
  while (place < delta.length) {
    const code = next()
    const isCopy = code >= 128
    const start = isCopy ? number(code, 4) : place
    const length = isCopy ? number(code >> 4, 3) || 65_536 : code
    const piece = (isCopy ? base : delta).subarray(start, start + length)
    if (!isCopy) place += length
    left -= piece.length
    if (left < 0) return undefined
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

/** Inflates an entry; `unknown` when its content is invalid, undefined when it is incomplete. */
function inflateEntry(bytes: Buffer, size: number) {
  try {
    // Node's types lack the result of the `info` option.
    const { buffer, engine } = inflateSync(bytes, {
      info: true,
      maxOutputLength: Math.max(size, 1),
    }) as unknown as { buffer: Buffer; engine: { bytesWritten: number } }
    return { content: buffer, length: engine.bytesWritten }
  } catch (error) {
    const isCut = error instanceof Error && 'code' in error && error.code === 'Z_BUF_ERROR'
    return isCut ? undefined : 'unknown'
  }
}

/** Whether a whole pack has no objects, and the right checksum. */
export function isEmptyPack(pack: Buffer, format: ObjectFormat): boolean {
  const header = pack.subarray(0, packHeaderBytes)
  const checksum = createHash(format).update(header).digest()
  return header.equals(packHeader(0)) && pack.subarray(packHeaderBytes).equals(checksum)
}

/** The header of a pack, with its number of objects. */
export function packHeader(objects: number): Buffer {
  const header = Buffer.alloc(packHeaderBytes)
  header.write('PACK', 'latin1')
  header.writeUInt32BE(2, 4)
  header.writeUInt32BE(objects, 8)
  return header
}

function countOf(pack: Buffer): number {
  return pack.readUInt32BE(8)
}

type WholeObject = Pick<NewObject, 'type' | 'content'>

const typeNumbers = { commit: 1, tree: 2, blob: 3 }

/** Writes a pack of whole objects. Other work goes on between its chunks. */
export async function* writePack(
  count: number,
  objects: Iterable<WholeObject> | AsyncIterable<WholeObject>,
  format: ObjectFormat,
): AsyncGenerator<Buffer, void, undefined> {
  const hash = createHash(format)
  let pieces: Buffer[] = []
  let bytes = 0
  const add = (piece: Buffer) => {
    hash.update(piece)
    pieces.push(piece)
    bytes += piece.length
  }
  add(packHeader(count))
  for await (const { type, content } of objects) {
    add(entryHeader(typeNumbers[type], content.length))
    add(content.length > syncMaxBytes ? await deflateLater(content) : deflateSync(content))
    if (bytes < chunkBytes) continue
    yield Buffer.concat(pieces)
    pieces = []
    bytes = 0
    await setImmediate()
  }
  pieces.push(hash.digest())
  yield Buffer.concat(pieces)
}

/** Type and size of an entry: four bits of the size beside the type, then seven a byte, the lowest first. */
function entryHeader(type: number, size: number): Buffer {
  const bytes = [(type << 4) | (size & 15)]
  for (let rest = Math.floor(size / 16); rest > 0; rest = Math.floor(rest / 128)) {
    const last = bytes.length - 1
    bytes[last] = (bytes[last] ?? 0) | 128
    bytes.push(rest & 127)
  }
  return Buffer.from(bytes)
}
