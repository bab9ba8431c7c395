import { createHash } from 'node:crypto'
import { type FileHandle, open } from 'node:fs/promises'
import { absentAs } from '#base/absence.ts'
import { idBytes, type ObjectFormat } from '#base/object-id.ts'
import { type ClonePack, packPath } from '#git/clone-packs/clone-packs.ts'
import { packHeaderBytes } from '#git/objects/pack.ts'

/** A part of a stream: bytes in memory, or a range of an open file. */
export type Part = Buffer | { file: FileHandle; start: number; length: number }

/** Packs whose files are open until it is disposed. */
export type OpenPacks = AsyncDisposable & { packs: OpenPack[] }

type OpenPack = ClonePack & { file: FileHandle }

const hashedAtOnce = 512 * 1024

/** Opens packs of a repository; undefined when one of them is gone or has another size. */
export async function openPacks(
  directory: string,
  packs: readonly ClonePack[],
): Promise<OpenPacks | undefined> {
  await using opening = new AsyncDisposableStack()
  const found: OpenPack[] = []
  for (const pack of packs) {
    const file = await open(packPath(directory, pack.name)).catch(absentAs(undefined))
    if (!file) return undefined
    opening.use(file)
    if ((await file.stat()).size !== pack.bytes) return undefined
    found.push({ ...pack, file })
  }
  const opened = opening.move()
  return { packs: found, [Symbol.asyncDispose]: () => opened.disposeAsync() }
}

/** All of a pack but its header and its checksum. */
export function entriesOf({ file, bytes }: OpenPack, format: ObjectFormat): Part {
  return { file, start: packHeaderBytes, length: bytes - packHeaderBytes - idBytes(format) }
}

/** The checksum of a pack; undefined when its header is another one. */
export async function storedChecksum(
  { file, bytes }: OpenPack,
  header: Buffer,
  format: ObjectFormat,
): Promise<Buffer | undefined> {
  const [found, checksum] = [Buffer.alloc(packHeaderBytes), Buffer.alloc(idBytes(format))]
  const whole = [{ file, start: 0, length: bytes }]
  await readParts(whole, 0, [found])
  await readParts(whole, bytes - checksum.length, [checksum])
  return found.equals(header) ? checksum : undefined
}

/** The checksum of a pack of these parts: their hash. */
export async function checksumOf(parts: readonly Part[], format: ObjectFormat): Promise<Buffer> {
  const hash = createHash(format)
  const buffer = Buffer.allocUnsafe(hashedAtOnce)
  const size = sizeOf(parts)
  for (let at = 0; at < size; at += hashedAtOnce) {
    const piece = buffer.subarray(0, Math.min(hashedAtOnce, size - at))
    await readParts(parts, at, [piece])
    hash.update(piece)
  }
  return hash.digest()
}

export function sizeOf(parts: readonly Part[]): number {
  return parts.reduce((sum, { length }) => sum + length, 0)
}

/** Fills buffers from an offset. Throws when a file ends early. */
export async function readParts(
  parts: readonly Part[],
  from: number,
  buffers: readonly Buffer[],
): Promise<void> {
  let left = [...buffers]
  let partAt = 0
  let at = from
  for (const part of parts) {
    const skipped = at - partAt
    if (left.length > 0 && skipped < part.length) {
      const { taken, rest } = split(left, part.length - skipped)
      await fill(taken, part, skipped)
      left = rest
      at = partAt + part.length
    }
    partAt += part.length
  }
}

async function fill(buffers: Buffer[], part: Part, from: number): Promise<void> {
  if (Buffer.isBuffer(part)) {
    let at = from
    for (const buffer of buffers) {
      part.copy(buffer, 0, at)
      at += buffer.length
    }
    return
  }
  let left = buffers
  for (let at = part.start + from; left.length > 0; ) {
    const { bytesRead } = await part.file.readv(left, at)
    if (bytesRead === 0) throw new Error('A pack was truncated while it was sent.')
    at += bytesRead
    left = split(left, bytesRead).rest
  }
}

/** Divides buffers after some bytes. */
function split(buffers: readonly Buffer[], bytes: number): { taken: Buffer[]; rest: Buffer[] } {
  const taken: Buffer[] = []
  const rest: Buffer[] = []
  let left = bytes
  for (const buffer of buffers) {
    const count = Math.min(left, buffer.length)
    if (count > 0) taken.push(buffer.subarray(0, count))
    if (count < buffer.length) rest.push(buffer.subarray(count))
    left -= count
  }
  return { taken, rest }
}
