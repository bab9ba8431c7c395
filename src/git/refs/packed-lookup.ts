import { type FileHandle, open } from 'node:fs/promises'

// Longer than any line, so that a block contains at least one whole record.
const blockBytes = 8192
const scannedBytes = 4 * blockBytes
const idLength = 40
const newline = 0x0a
const caret = 0x5e

/**
 * Looks up the values of refs in a packed-refs file by binary search (format: refs/packed-backend.c in Git). The result
 * has those that exist; it is undefined for a file that is not sorted.
 */
export async function lookUpPacked(
  path: string,
  names: Iterable<string>,
): Promise<Map<string, string> | undefined> {
  await using file = await open(path)
  const whole = await sortedRange(file)
  if (!whole) return undefined
  const found = new Map<string, string>()
  for (const name of names) {
    const value = await lookUp(file, whole, Buffer.from(name))
    if (value !== undefined) found.set(name, value)
  }
  return found
}

/** Whether a packed-refs file has refs whose names begin with a prefix; undefined for a file that is not sorted. */
export async function hasPackedBelow(path: string, prefix: string): Promise<boolean | undefined> {
  await using file = await open(path)
  const whole = await sortedRange(file)
  if (!whole) return undefined
  const { start, end } = await narrowed(file, whole, Buffer.from(prefix))
  // The first of them may begin where the range ends.
  const lines = await readAt(file, start, Math.min(end + blockBytes, whole.end) - start)
  return lines.includes(` ${prefix}`)
}

/** A range of bytes that starts at a line. */
type Range = { start: number; end: number }

/** The lines of refs in a packed-refs file; undefined when they are not sorted. */
async function sortedRange(file: FileHandle): Promise<Range | undefined> {
  const { size } = await file.stat()
  const head = await readAt(file, 0, blockBytes)
  const start = head.indexOf(newline) + 1
  const header = head.toString('latin1', 0, start)
  const isSorted = header.startsWith('# pack-refs with: ') && / sorted\b/.test(header)
  return isSorted ? { start, end: size } : undefined
}

async function lookUp(file: FileHandle, range: Range, name: Buffer): Promise<string | undefined> {
  const { start, end } = await narrowed(file, range, name)
  const lines = await readAt(file, start, end - start)
  const wanted = Buffer.concat([Buffer.from(' '), name, Buffer.from('\n')])
  const at = lines.indexOf(wanted) - idLength
  if (at < 0 || (at > 0 && lines[at - 1] !== newline)) return undefined
  const id = lines.toString('latin1', at, at + idLength)
  return /^[0-9a-f]{40}$/.test(id) ? id : undefined
}

// Invariant: the line of the ref, if it exists, is in the range.
async function narrowed(file: FileHandle, { start, end }: Range, name: Buffer): Promise<Range> {
  let [low, high] = [start, end]
  while (high - low > scannedBytes) {
    const middle = low + Math.floor((high - low) / 2)
    const record = firstRecord(await readAt(file, middle, blockBytes))
    if (!record) break
    if (Buffer.compare(name, record.name) < 0) high = middle + record.at
    else low = middle + record.at
  }
  return { start: low, end: high }
}

function firstRecord(block: Buffer): { at: number; name: Buffer } | undefined {
  let at = block.indexOf(newline) + 1
  // A `^` line has the peeled value of the tag before it.
  if (block[at] === caret) at = block.indexOf(newline, at) + 1
  const end = block.indexOf(newline, at)
  if (at === 0 || end === -1) return undefined
  return { at, name: block.subarray(at + idLength + 1, end) }
}

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length)
  let filled = 0
  while (filled < length) {
    const { bytesRead } = await file.read(buffer, filled, length - filled, position + filled)
    if (bytesRead === 0) break
    filled += bytesRead
  }
  return buffer.subarray(0, filled)
}
