import { type FileHandle, open, readFile } from 'node:fs/promises'
import { absentAs } from '#base/absence.ts'
import { readFingerprint } from '#base/file-fingerprint.ts'
import { createKnownFiles } from '#base/known-files.ts'
import { isObjectId } from '#base/object-id.ts'
import { createTimeSlices } from '#base/time-slices.ts'
import { zeroId } from './ref-name.ts'
import type { RawRefs } from './stored-ref.ts'

// Longer than any line, so that a block contains at least one whole record.
const blockBytes = 8192
const scannedBytes = 4 * blockBytes
const newline = 0x0a
const space = 0x20
const caret = 0x5e
// Beyond this, one pass over the whole file is faster.
const maxLookUps = 64
const linesPerCheck = 4096

// Most requests read refs that have not changed since the last one.
const maxFiles = 500
const maxNames = 200
const known = createKnownFiles<RawRefs>(maxFiles)

/**
 * Visits the refs of a repository's packed-refs file, until a visit returns true (format: refs/packed-backend.c in Git).
 * Returns whether one did.
 */
export async function somePackedRef(
  directory: string,
  visit: (name: string, id: string) => boolean,
): Promise<boolean> {
  const text = await readFile(pathIn(directory), 'latin1').catch(absentAs(''))
  const slices = createTimeSlices()
  let count = 0
  for (const [, id = '', name = ''] of text.matchAll(/^([0-9a-f]{40,64}) (.+)$/gm)) {
    if (visit(name, id)) return true
    count += 1
    if (count % linesPerCheck === 0) await slices.rest()
  }
  return false
}

/** Reads packed refs; the result has those that exist. What was looked up is not read again until the file changes. */
export async function readPackedRefs(
  directory: string,
  names: ReadonlySet<string>,
): Promise<RawRefs> {
  const lookedUp = names.size <= maxLookUps ? await lookUpKnown(directory, names) : undefined
  if (lookedUp) return lookedUp
  const found: RawRefs = new Map()
  await somePackedRef(directory, (name, id) => {
    if (names.has(name)) found.set(name, id)
    return found.size === names.size
  })
  return found
}

/** Whether packed refs have names that begin with a prefix; undefined for a file that is not sorted. */
export async function hasPackedBelow(
  directory: string,
  prefix: string,
): Promise<boolean | undefined> {
  await using file = await open(pathIn(directory)).catch(absentAs(undefined))
  if (!file) return false
  const whole = await sortedRange(file)
  if (!whole) return undefined
  const { start, end } = await narrowed(file, whole, bytesOf(prefix))
  // The first of them may begin where the range ends.
  const lines = await readAt(file, start, Math.min(end + blockBytes, whole.end) - start)
  return lines.includes(bytesOf(` ${prefix}`))
}

/** Undefined for a file that is not sorted. */
async function lookUpKnown(
  directory: string,
  names: ReadonlySet<string>,
): Promise<RawRefs | undefined> {
  const path = pathIn(directory)
  const fingerprint = readFingerprint(path)
  const found: RawRefs = new Map()
  if (!fingerprint) return found
  const before = known.get(path, fingerprint)
  // All zeros for those that do not exist.
  const values: RawRefs = before ?? new Map()
  if (!before) known.set(path, fingerprint, values)
  const unknown = [...names].filter((name) => !values.has(name))
  const read = unknown.length === 0 ? found : await lookUp(path, unknown)
  if (!read) return undefined
  for (const name of names) {
    const id = read.get(name) ?? values.get(name) ?? zeroId
    if (id !== zeroId) found.set(name, id)
  }
  if (values.size + unknown.length > maxNames) values.clear()
  for (const name of unknown) values.set(name, read.get(name) ?? zeroId)
  return found
}

/** Looks refs up by binary search; undefined for a file that is not sorted. */
async function lookUp(path: string, names: string[]): Promise<RawRefs | undefined> {
  const found: RawRefs = new Map()
  await using file = await open(path).catch(absentAs(undefined))
  if (!file) return found
  const whole = await sortedRange(file)
  if (!whole) return undefined
  for (const name of names) {
    const range = await narrowed(file, whole, bytesOf(name))
    const lines = await readAt(file, range.start, range.end - range.start)
    const end = lines.indexOf(bytesOf(` ${name}\n`))
    if (end === -1) continue
    const id = lines.toString('latin1', lines.lastIndexOf(newline, end) + 1, end)
    if (isObjectId(id)) found.set(name, id)
  }
  return found
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
  return { at, name: block.subarray(block.indexOf(space, at) + 1, end) }
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

function bytesOf(text: string): Buffer {
  return Buffer.from(text, 'latin1')
}

function pathIn(directory: string): string {
  return `${directory}/packed-refs`
}
