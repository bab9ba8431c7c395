import { ArchiveFormatError } from './archive-format-error.ts'

/** A header of a tar archive: POSIX ustar, or GNU's. */
export type TarHeader = {
  name: string
  /** `0` a file, `5` a folder, `L` and `x` what precedes the header of a file with a long name; others are links and the like. */
  type: string
  mode: number
  size: number
  /** Seconds since the Unix epoch. */
  modifiedAt: number
}

export const blockBytes = 512

// Offsets of fields.
const at = { mode: 100, size: 124, modifiedAt: 136, sum: 148, type: 156, magic: 257, prefix: 345 }
const sumBytes = 8
const ustar = 'ustar\0'

/** Reads a header; undefined for the block of zeros at the end of an archive. Throws ArchiveFormatErrors. */
export function readHeader(block: Buffer): TarHeader | undefined {
  if (block.every((byte) => byte === 0)) return undefined
  if (readNumber(block, at.sum, sumBytes) !== sumOf(block))
    throw new ArchiveFormatError('It is no tar archive, or is damaged.')
  const name = readTextField(block, 0, at.mode)
  const isUstar = block.toString('latin1', at.magic, at.magic + ustar.length) === ustar
  const prefix = isUstar ? readTextField(block, at.prefix, 500) : ''
  const type = String.fromCharCode(block[at.type] || 0x30)
  return {
    name: prefix === '' ? name : `${prefix}/${name}`,
    // Older archives mark a folder by its name.
    type: type === '0' && name.endsWith('/') ? '5' : type,
    mode: readNumber(block, at.mode, 8),
    size: readNumber(block, at.size, 12),
    // GNU tar writes times before 1970 as negative numbers.
    modifiedAt: block[at.modifiedAt] === 0xff ? 0 : readNumber(block, at.modifiedAt, 12),
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Decodes a name. Throws an ArchiveFormatError when it is not UTF-8. */
export function decodeName(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes)
  } catch (error) {
    throw new ArchiveFormatError('It has a name that is not UTF-8.', { cause: error })
  }
}

/** The text of a field, up to a NUL. */
export function readTextField(block: Buffer, from: number, to: number): string {
  const end = block.subarray(from, to).indexOf(0)
  return decodeName(block.subarray(from, end === -1 ? to : from + end))
}

function sumOf(block: Buffer): number {
  const space = 0x20
  let sum = sumBytes * space
  for (const byte of block.subarray(0, at.sum)) sum += byte
  for (const byte of block.subarray(at.sum + sumBytes)) sum += byte
  return sum
}

/** A number in octal digits, or as GNU tar writes larger ones, in base 256. */
function readNumber(block: Buffer, from: number, length: number): number {
  const isBinary = block[from] === 0x80
  const digits = block
    .toString('latin1', from, from + length)
    .replaceAll('\0', ' ')
    .trim()
  const value = isBinary ? readBase256(block, from + 1, length - 1) : Number(`0o${digits || 0}`)
  if (Number.isSafeInteger(value)) return value
  throw new ArchiveFormatError('It is no tar archive, or is damaged.')
}

function readBase256(block: Buffer, from: number, length: number): number {
  let value = 0
  for (const byte of block.subarray(from, from + length)) value = value * 256 + byte
  return value
}
