import { inflateSync } from 'node:zlib'

export const commitType = 1
export const treeType = 2
export const blobType = 3
export const tagType = 4
export const ofsDeltaType = 6
export const refDeltaType = 7
const idBytes = 20

type EntryHeader = {
  type: number
  /** Of its inflated content. */
  size: number
  /** The distance back to the delta's base object, for an `ofsDeltaType`. */
  back: number
  /** The id of the delta's base object, for a `refDeltaType`. */
  base: string
  /** Where its content starts. */
  end: number
}

/** The header of an entry of a pack; undefined when the pack ends before. See https://git-scm.com/docs/pack-format */
export function readEntryHeader(pack: Buffer, place: number): EntryHeader | undefined {
  let end = place
  const next = () => pack[end++] ?? 0
  let byte = next()
  const type = (byte >> 4) & 7
  let size = byte & 15
  for (let shift = 4; byte >= 128; shift += 7) {
    byte = next()
    size += (byte & 127) * 2 ** shift
  }
  const base = type === refDeltaType ? pack.toString('hex', end, end + idBytes) : ''
  if (type === refDeltaType) end += idBytes
  let back = 0
  if (type === ofsDeltaType) {
    byte = next()
    back = byte & 127
    while (byte >= 128) {
      byte = next()
      back = (back + 1) * 128 + (byte & 127)
    }
  }
  return end < pack.length ? { type, size, back, base, end } : undefined
}

/**
 * Applies a delta: two sizes, then instructions to copy a range of the base or to insert bytes. Undefined when the result
 * would have more than `maxBytes`.
 */
export function patchedBy(base: Buffer, delta: Buffer, maxBytes: number): Buffer | undefined {
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
export function inflateEntry(bytes: Buffer, size: number) {
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
