import { open } from 'node:fs/promises'
import { setImmediate as yieldToOthers } from 'node:timers/promises'
import { isAbsence } from '#base/absence.ts'
import { type Fingerprint, toFingerprint } from '#base/file-fingerprint.ts'
import { idDigits } from '#base/object-id.ts'
import { LeftToGitError } from './loose-refs.ts'
import { hiddenRefs } from './ref-name.ts'

/**
 * The format of a ref: alone; with the peeled value of a tag at the end of its line, as in `ls-refs`; or with that on
 * a line of its own, as in advertisements before version 2.
 */
export type Style = 'plain' | 'peeled' | 'doubled'

/** Refs as consecutive pkt-lines. `starts` has one more entry, the end of the last ref. */
export type RefLines = { bytes: Buffer; starts: Uint32Array }

export type PackedLines = ReturnType<typeof toPackedLines>

const lengthDigits = 4
const peeledMark = Buffer.from(' peeled:')
const doubledMark = Buffer.from('^{}\n')
// Work between two turns of the event loop: a millisecond or two.
const bytesPerTick = 512 * 1024
const refsPerTick = 10_000
const linesMaxBytes = 2 ** 31
const nameMaxLength = 1024
const [newline, space, caret, slash, dot, at, brace] = Buffer.from('\n ^/.@{')

// Bytes that git-check-ref-format(1) forbids in names.
const isForbidden = new Uint8Array(256)
for (const byte of Buffer.from(' \x7f~^:?*[\\')) isForbidden[byte] = 1
isForbidden.fill(1, 0, 0x20)
const isHex = new Uint8Array(256)
for (const byte of Buffer.from('0123456789abcdef')) isHex[byte] = 1

/**
 * Reads the visible packed refs of a repository, with the file's fingerprint from before (format: refs/packed-backend.c
 * in Git). Throws a LeftToGitError for a file that is not fully peeled and sorted, or not as git writes it.
 */
export async function readPackedLines(
  path: string,
): Promise<{ packed: PackedLines; fingerprint: Fingerprint | undefined }> {
  const startedAt = Date.now()
  await using file = await open(path).catch((error) => {
    if (isAbsence(error)) return undefined
    throw error
  })
  if (!file) return { packed: noLines, fingerprint: undefined }
  const fingerprint = toFingerprint(await file.stat(), startedAt)
  if (fingerprint.size > linesMaxBytes / 2) throw new LeftToGitError(path)
  return { packed: await parsePacked(await file.readFile()), fingerprint }
}

async function parsePacked(content: Buffer): Promise<PackedLines> {
  const header = content.toString('latin1', 0, content.indexOf('\n') + 1)
  const traits = [' fully-peeled ', ' sorted ']
  if (!header.startsWith('# pack-refs with:') || !traits.every((trait) => header.includes(trait))) {
    throw new LeftToGitError('packed-refs')
  }
  const isSha256 = content[header.length + idDigits('sha256')] === space
  const idLength = idDigits(isSha256 ? 'sha256' : 'sha1')
  // A pkt-line is longer than the file's line by its length digits.
  const count = Math.floor(content.length / (idLength + 2)) + 1
  const bytes = Buffer.allocUnsafe(content.length + count * lengthDigits)
  const starts = new Uint32Array(count + 1)
  const tags: Tag[] = []
  let [refs, length, position, paused] = [0, 0, header.length, 0]
  let isShown = false
  while (position < content.length) {
    if (position - paused > bytesPerTick) {
      await yieldToOthers()
      paused = position
    }
    if (content[position] === caret) {
      const end = position + 1 + idLength
      if (content[end] !== newline || !isId(content, position + 1, end))
        throw new LeftToGitError('packed-refs')
      if (isShown) tags.push({ ref: refs - 1, peeled: content.subarray(position + 1, end) })
      position = end + 1
      continue
    }
    const end = endOfRef(content, position, idLength)
    isShown = !isHidden(content, position + idLength + 1, end)
    if (isShown) {
      writeLength(bytes, length, end + 1 - position + lengthDigits)
      content.copy(bytes, length + lengthDigits, position, end + 1)
      length += end + 1 - position + lengthDigits
      refs += 1
      starts[refs] = length
    }
    position = end + 1
  }
  // Copied, so that the larger buffers can be freed.
  const copies = tags.map(({ ref, peeled }) => ({ ref, peeled: Buffer.from(peeled) }))
  return toPackedLines(
    { bytes: Buffer.from(bytes.subarray(0, length)), starts: starts.slice(0, refs + 1) },
    copies,
    idLength,
  )
}

/** An annotated tag: the index of its ref, and its peeled value. */
type Tag = { ref: number; peeled: Buffer }

function toPackedLines(plain: RefLines, tags: readonly Tag[], idLength: number) {
  const nameAt = lengthDigits + idLength + 1
  const peeledOf = new Map(tags.map(({ ref, peeled }) => [ref, peeled]))
  const styles = new Map<Style, Promise<RefLines>>([['plain', Promise.resolve(plain)]])
  let styledBytes = 0
  const { bytes, starts } = plain
  const count = starts.length - 1

  async function styled(style: Exclude<Style, 'plain'>): Promise<RefLines> {
    const extra = style === 'peeled' ? () => peeledMark.length + idLength : doubledLength
    const size = tags.reduce((sum, { ref }) => sum + extra(lengthOf(ref)), bytes.length)
    if (size > linesMaxBytes) throw new LeftToGitError('packed-refs')
    const lines = { bytes: Buffer.allocUnsafe(size), starts: new Uint32Array(count + 1) }
    let length = 0
    for (let ref = 0; ref < count; ref++) {
      if (ref % refsPerTick === refsPerTick - 1) await yieldToOthers()
      const peeled = peeledOf.get(ref)
      const start = starts[ref] ?? 0
      const end = starts[ref + 1] ?? 0
      if (!peeled) length += bytes.copy(lines.bytes, length, start, end)
      else if (style === 'peeled')
        length = writePeeled(lines.bytes, length, bytes.subarray(start, end), peeled)
      else length = writeDoubled(lines.bytes, length, bytes.subarray(start, end), peeled)
      lines.starts[ref + 1] = length
    }
    styledBytes += size + lines.starts.byteLength
    return lines
  }

  function lengthOf(ref: number): number {
    return (starts[ref + 1] ?? 0) - (starts[ref] ?? 0)
  }

  /** Returns the index of the first ref whose name, cut to the prefix's length, is >= the prefix, or > if `isAfter`. */
  function firstFrom(prefix: Buffer, isAfter: boolean): number {
    let [low, high] = [0, count]
    while (low < high) {
      const middle = (low + high) >>> 1
      const start = (starts[middle] ?? 0) + nameAt
      const end = Math.min(start + prefix.length, (starts[middle + 1] ?? 0) - 1)
      const order = bytes.compare(prefix, 0, prefix.length, start, end)
      if (isAfter ? order <= 0 : order < 0) low = middle + 1
      else high = middle
    }
    return low
  }

  /** Returns the index of the ref whose line has a position. */
  function refAt(position: number): number {
    let [low, high] = [0, count]
    while (low + 1 < high) {
      const middle = (low + high) >>> 1
      if ((starts[middle] ?? 0) <= position) low = middle
      else high = middle
    }
    return low
  }

  return {
    count,

    /** Returns the half-open range of refs whose names begin with a prefix. */
    range: (prefix: Buffer): [number, number] => [
      firstFrom(prefix, false),
      firstFrom(prefix, true),
    ],

    /** Finds a ref; `at` is its index, or where it would be inserted. */
    find(name: Buffer): { at: number; id: string | undefined; peeled: string | undefined } {
      const found = firstFrom(name, false)
      const isThere =
        found < count &&
        lengthOf(found) === nameAt + name.length + 1 &&
        firstFrom(name, true) > found
      if (!isThere) return { at: found, id: undefined, peeled: undefined }
      const start = (starts[found] ?? 0) + lengthDigits
      const id = bytes.toString('latin1', start, start + idLength)
      return { at: found, id, peeled: peeledOf.get(found)?.toString('latin1') ?? '' }
    },

    /** The indexes of the refs that point to an object. */
    *pointingTo(id: string): Generator<number, void, undefined> {
      // Only after a ref's id there is a space: a name has none.
      const wanted = Buffer.from(`${id} `, 'latin1')
      for (let at = bytes.indexOf(wanted); at !== -1; at = bytes.indexOf(wanted, at + 1))
        yield refAt(at)
    },

    /** Formats all refs. Without annotated tags, all styles are the same. */
    lines(style: Style): Promise<RefLines> {
      if (style === 'plain' || tags.length === 0) return Promise.resolve(plain)
      const known = styles.get(style) ?? styled(style)
      styles.set(style, known)
      return known
    },

    /** Approximate memory, in bytes. */
    size: () => bytes.length + starts.byteLength + tags.length * 150 + styledBytes,
  }
}

const noLines = toPackedLines({ bytes: Buffer.alloc(0), starts: new Uint32Array(1) }, [], 0)

// Returns the end of a ref's line. Throws a LeftToGitError for a name that git would not accept.
function endOfRef(content: Buffer, start: number, idLength: number): number {
  const first = start + idLength + 1
  if (content[first - 1] !== space || !isId(content, start, first - 1))
    throw new LeftToGitError('packed-refs')
  let before = slash
  for (let end = first; end < content.length; end++) {
    const byte = content[end]
    if (byte === newline) {
      if (end - first > nameMaxLength || before === slash || before === dot) break
      if (isLock(content, end) || content.toString('latin1', first, first + 5) !== 'refs/') break
      return end
    }
    if (isForbidden[byte ?? 0] === 1) break
    if (byte === slash && (before === slash || isLock(content, end))) break
    if (byte === dot && (before === slash || before === dot)) break
    if (byte === brace && before === at) break
    before = byte
  }
  throw new LeftToGitError('packed-refs')
}

function isId(content: Buffer, start: number, end: number): boolean {
  for (let digit = start; digit < end; digit++) {
    if (isHex[content[digit] ?? 0] !== 1) return false
  }
  return true
}

function isLock(content: Buffer, end: number): boolean {
  return content[end - 1] === 0x6b && content.toString('latin1', end - 5, end) === '.lock'
}

const hiddenName = Buffer.from(hiddenRefs)

function isHidden(content: Buffer, start: number, end: number): boolean {
  const after = start + hiddenName.length
  if (after > end || (after < end && content[after] !== slash)) return false
  return content.compare(hiddenName, 0, hiddenName.length, start, after) === 0
}

function writePeeled(to: Buffer, at: number, line: Buffer, peeled: Buffer): number {
  const length = line.length + peeledMark.length + peeled.length
  line.copy(to, at, 0, line.length - 1)
  peeledMark.copy(to, at + line.length - 1)
  peeled.copy(to, at + length - peeled.length - 1)
  to[at + length - 1] = 0x0a
  writeLength(to, at, length)
  return at + length
}

function writeDoubled(to: Buffer, at: number, line: Buffer, peeled: Buffer): number {
  line.copy(to, at)
  const second = at + line.length
  const length = line.length + doubledMark.length - 1
  peeled.copy(to, second + lengthDigits)
  const idEnd = lengthDigits + peeled.length
  line.copy(to, second + idEnd, idEnd, line.length - 1)
  doubledMark.copy(to, second + length - doubledMark.length)
  writeLength(to, second, length)
  return second + length
}

function doubledLength(lineLength: number): number {
  return lineLength + doubledMark.length - 1
}

const digits = Buffer.from('0123456789abcdef')

function writeLength(to: Buffer, at: number, length: number): void {
  for (let digit = 0; digit < lengthDigits; digit++) {
    to[at + digit] = digits[(length >> (4 * (lengthDigits - 1 - digit))) & 0xf] ?? 0
  }
}
