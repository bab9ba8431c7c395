import { pipeline, Readable } from 'node:stream'
import { crc32, createDeflateRaw, deflateRawSync } from 'node:zlib'
import { inBatches } from '../chunks.ts'
import { ArchiveFormatError } from './archive-format-error.ts'
import type { ArchiveEntry } from './read-tar.ts'

// https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, whose sections are named below.

/** An entry in the list at the end of a zip archive. */
type Listed = {
  name: Buffer
  isFile: boolean
  isExecutable: boolean
  isLarge: boolean
  /** MS-DOS date and time, in UTC. */
  modifiedAt: number
  crc: number
  size: number
  compressedSize: number
  /** Where the entry begins. */
  offset: number
}

// In memory until the end.
const listMaxBytes = 32 * 1024 * 1024
const largest = 0xffff_ffff
const largestCount = 0xffff
// A stream for each file takes 0.35 ms more than a call.
const smallMaxBytes = 32 * 1024
// Headers and small files are no chunks of their own.
const batchBytes = 64 * 1024
// Compressed, noise is a little larger.
const largeFromBytes = 0xf000_0000
const version = 45
const byUnix = 3
/** Sizes follow the content; names are UTF-8. */
const flags = 0x0808
const deflated = 8

/**
 * Writes a zip archive while its entries are read, compressed and with Zip64 where sizes need it. Throws ArchiveFormatErrors
 * for more entries than fit into 32 MiB.
 */
export async function* writeZip(
  entries: AsyncIterable<ArchiveEntry>,
): AsyncGenerator<Buffer, void, undefined> {
  for await (const batch of inBatches(writeAll(entries), batchBytes)) yield Buffer.concat(batch)
}

async function* writeAll(entries: AsyncIterable<ArchiveEntry>): AsyncGenerator<Buffer> {
  const list: Buffer[] = []
  let [offset, listBytes] = [0, 0]
  for await (const entry of entries) {
    const listed = toListed(entry, offset)
    for await (const chunk of writeEntry(entry, listed)) {
      offset += chunk.length
      yield chunk
    }
    const record = toRecord(listed)
    list.push(record)
    listBytes += record.length
    if (listBytes > listMaxBytes)
      throw new ArchiveFormatError('It has too many files for a zip archive.')
  }
  yield* list
  yield toEnd({ count: list.length, bytes: listBytes, offset })
}

function toListed(entry: ArchiveEntry, offset: number): Listed {
  const { kind, path, size, isExecutable, modifiedAt } = entry
  const isFile = kind === 'file'
  return {
    name: Buffer.from(path.join('/') + (isFile ? '' : '/')),
    isFile,
    isExecutable,
    isLarge: size >= largeFromBytes,
    modifiedAt: toDosTime(modifiedAt),
    ...{ crc: 0, size: 0, compressedSize: 0 },
    offset,
  }
}

/** 4.3.7 and 4.3.9: the local header, the content, and its sizes, which are also set. */
async function* writeEntry(
  { content, size }: ArchiveEntry,
  listed: Listed,
): AsyncGenerator<Buffer> {
  yield toLocalHeader(listed)
  async function* measured() {
    for await (const chunk of content) {
      listed.crc = crc32(chunk, listed.crc)
      listed.size += chunk.length
      yield chunk
    }
  }
  for await (const chunk of compress(measured(), size)) {
    listed.compressedSize += chunk.length
    yield chunk
  }
  yield toDescriptor(listed)
}

async function* compress(chunks: AsyncIterable<Buffer>, size: number): AsyncGenerator<Buffer> {
  if (size <= smallMaxBytes) {
    yield deflateRawSync(Buffer.concat(await Array.fromAsync(chunks)))
    return
  }
  // The reader of the last stream gets the error of each.
  yield* pipeline(Readable.from(chunks), createDeflateRaw(), () => {})
}

function toLocalHeader({ name, isLarge, modifiedAt }: Listed): Buffer {
  const unknown = isLarge ? largest : 0
  const extra = isLarge ? toZip64([0, 0]) : Buffer.alloc(0)
  const header = fields([4, 0x04034b50], [2, version], [2, flags], [2, deflated], [4, modifiedAt])
  const sizes = fields([4, 0], [4, unknown], [4, unknown], [2, name.length], [2, extra.length])
  return Buffer.concat([header, sizes, name, extra])
}

function toDescriptor({ crc, size, compressedSize, isLarge }: Listed): Buffer {
  const length = isLarge ? 8 : 4
  return fields([4, 0x08074b50], [4, crc], [length, compressedSize], [length, size])
}

/** 4.3.12: the record of an entry in the list at the end. */
function toRecord({ name, modifiedAt, crc, size, compressedSize, offset, ...entry }: Listed) {
  const numbers = [size, compressedSize, offset]
  const large = numbers.filter((value) => value >= largest)
  const extra = large.length > 0 ? toZip64(large) : Buffer.alloc(0)
  const [shownSize, shownCompressed, shownOffset] = numbers.map((value) => Math.min(value, largest))
  return Buffer.concat([
    fields([4, 0x02014b50], [1, version], [1, byUnix], [2, version], [2, flags], [2, deflated]),
    fields([4, modifiedAt], [4, crc], [4, shownCompressed], [4, shownSize]),
    fields([2, name.length], [2, extra.length], [2, 0], [2, 0], [2, 0]),
    fields([4, attributesOf(entry)], [4, shownOffset]),
    name,
    extra,
  ])
}

/** 4.3.14 to 4.3.16: the end, with a record of Zip64 where the numbers need it. */
function toEnd({ count, bytes, offset }: { count: number; bytes: number; offset: number }): Buffer {
  const isLarge = count >= largestCount || offset + bytes >= largest
  const shownCount = Math.min(count, largestCount)
  const zip64 = isLarge
    ? [
        fields([4, 0x06064b50], [8, 44], [1, version], [1, byUnix], [2, version], [4, 0], [4, 0]),
        fields([8, count], [8, count], [8, bytes], [8, offset]),
        fields([4, 0x07064b50], [4, 0], [8, offset + bytes], [4, 1]),
      ]
    : []
  return Buffer.concat([
    ...zip64,
    fields([4, 0x06054b50], [2, 0], [2, 0], [2, shownCount], [2, shownCount]),
    fields([4, bytes], [4, Math.min(offset, largest)], [2, 0]),
  ])
}

/** 4.5.3: the numbers of an entry that do not fit into 4 bytes. */
function toZip64(numbers: readonly number[]): Buffer {
  const values = numbers.map((value): [8, number] => [8, value])
  return fields([2, 0x0001], [2, 8 * numbers.length], ...values)
}

/** The mode of Unix in the upper half, and that of MS-DOS in the lower. */
function attributesOf({ isFile, isExecutable }: Pick<Listed, 'isFile' | 'isExecutable'>): number {
  const mode = isFile ? 0o100644 | (isExecutable ? 0o111 : 0) : 0o040755
  return mode * 0x1_0000 + (isFile ? 0 : 0x10)
}

function toDosTime(seconds: number): number {
  const [first, last] = [Date.UTC(1980), Date.UTC(2107, 11, 31)]
  const time = new Date(Math.min(Math.max(seconds * 1000, first), last))
  const date =
    (time.getUTCFullYear() - 1980) * 512 + (time.getUTCMonth() + 1) * 32 + time.getUTCDate()
  const clock = time.getUTCHours() * 2048 + time.getUTCMinutes() * 32 + (time.getUTCSeconds() >> 1)
  return date * 0x1_0000 + clock
}

/** Numbers, lowest byte first, each in a number of bytes. */
function fields(...values: readonly [1 | 2 | 4 | 8, number | undefined][]): Buffer {
  const buffer = Buffer.alloc(values.reduce((sum, [length]) => sum + length, 0))
  let at = 0
  for (const [length, value = 0] of values) {
    if (length === 8) buffer.writeBigUInt64LE(BigInt(value), at)
    else buffer.writeUIntLE(value, at, length)
    at += length
  }
  return buffer
}
