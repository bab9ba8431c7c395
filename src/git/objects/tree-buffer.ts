import { idBytes, type ObjectFormat } from '#base/object-id.ts'
import { createTimeSlices } from '#base/time-slices.ts'

/**
 * A tree object as it is stored, with the offset of each entry and, last, of its end. Kept like this, it takes a few
 * bytes an entry besides its content.
 */
export type TreeBuffer = { content: Buffer; starts: Uint32Array; format: ObjectFormat }

/** An entry of a tree; the mode is in octal, `100644` for a file, `120000` for a symbolic link. */
export type TreeEntry = { mode: string; name: string; id: string }

/** Thrown for a tree that is not well formed. */
export class MalformedTreeError extends Error {
  override readonly name = 'MalformedTreeError'
}

const modeMinDigits = 1
const modeMaxDigits = 7
const [space, zero, one, seven, slash] = Buffer.from(' 017/')
// An entry has at least a digit, a space, a letter, a NUL and an id.
const entryMinBytes = 24
const entriesPerCheck = 4096
const compareBytes = 16 * 1024

/** Parses a tree object: `<mode> <name>`, a NUL and a binary object id for each entry. */
export function* entriesOfTree(
  content: Buffer,
  encoding: 'utf8' | 'latin1',
  format: ObjectFormat,
): Generator<TreeEntry, void, undefined> {
  for (let at = 0; at < content.length; ) {
    const end = content.indexOf(space ?? 0, at)
    const nul = content.indexOf(0, end)
    if (end === -1 || nul === -1) return
    const mode = content.toString('latin1', at, end)
    const name = content.toString(encoding, end + 1, nul)
    at = nul + 1 + idBytes(format)
    yield { mode, name, id: content.toString('hex', nul + 1, at) }
  }
}

/** Finds the entries of a tree. Throws a MalformedTreeError. */
export async function toTreeBuffer(content: Buffer, format: ObjectFormat): Promise<TreeBuffer> {
  const starts = new Uint32Array(Math.floor(content.length / entryMinBytes) + 2)
  const slices = createTimeSlices()
  let count = 0
  for (let at = 0; at < content.length; at = endOfEntry(content, at, format)) {
    if (count % entriesPerCheck === 0) await slices.rest()
    if (count + 1 >= starts.length) throw new MalformedTreeError('entries without names')
    starts[count] = at
    count += 1
  }
  starts[count] = content.length
  return { content, starts: starts.slice(0, count + 1), format }
}

export function entryCount({ starts }: TreeBuffer): number {
  return starts.length - 1
}

/** The entry at an index. Its name is raw: each character is a byte (latin1). */
export function entryAt(tree: TreeBuffer, index: number): TreeEntry {
  const { content, starts, format } = tree
  const [nameStart, nameEnd] = nameRange(tree, index)
  return {
    mode: canonicalMode(content.toString('latin1', starts[index], nameStart - 1)),
    name: content.toString('latin1', nameStart, nameEnd),
    id: content.toString('hex', nameEnd + 1, nameEnd + 1 + idBytes(format)),
  }
}

/** The entry of a raw name. */
export function entryNamed(tree: TreeBuffer, name: string): TreeEntry | undefined {
  const { content, starts, format } = tree
  const wanted = Buffer.from(` ${name}\0`, 'latin1')
  for (let at = content.indexOf(wanted); at !== -1; at = content.indexOf(wanted, at + 1)) {
    // The bytes may also be within an id.
    const index = indexAt(starts, at)
    const isName = content.indexOf(space ?? 0, starts[index]) === at
    if (isName && starts[index + 1] === at + wanted.length + idBytes(format))
      return entryAt(tree, index)
  }
  return undefined
}

/** The index of the entry that contains an offset. */
function indexAt(starts: Uint32Array, offset: number): number {
  let [low, high] = [0, starts.length - 1]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((starts[middle + 1] ?? Number.POSITIVE_INFINITY) > offset) high = middle
    else low = middle + 1
  }
  return low
}

/**
 * The names of the entries of a tree that another one does not have with the same mode and id. Most entries of two
 * versions of a folder are alike, so they are compared as bytes, and only those between their common start and end.
 */
export function changedNames(tree: TreeBuffer, other: TreeBuffer): string[] {
  const [from, to, otherFrom, otherTo] = differingEntries(tree, other)
  const changed: string[] = []
  let [index, otherIndex] = [from, otherFrom]
  while (index < to) {
    const order = otherIndex < otherTo ? compareEntries(tree, index, other, otherIndex) : -1
    if (order < 0 || (order === 0 && !isSameEntry(tree, index, other, otherIndex)))
      changed.push(entryAt(tree, index).name)
    if (order <= 0) index += 1
    if (order >= 0) otherIndex += 1
  }
  return changed
}

function isSameEntry(
  tree: TreeBuffer,
  index: number,
  other: TreeBuffer,
  otherIndex: number,
): boolean {
  const [start, end] = [tree.starts[index] ?? 0, tree.starts[index + 1] ?? 0]
  const [otherStart, otherEnd] = [other.starts[otherIndex] ?? 0, other.starts[otherIndex + 1] ?? 0]
  if (tree.content.compare(other.content, otherStart, otherEnd, start, end) === 0) return true
  const [one, two] = [entryAt(tree, index), entryAt(other, otherIndex)]
  // The same mode can be stored with other digits.
  return one.mode === two.mode && one.id === two.id
}

/** Compares the names of entries in Git's order, in which that of a folder ends with a slash: base_name_compare in Git's tree.c. */
function compareEntries(
  tree: TreeBuffer,
  index: number,
  other: TreeBuffer,
  otherIndex: number,
): number {
  const [start, end] = nameRange(tree, index)
  const [otherStart, otherEnd] = nameRange(other, otherIndex)
  const length = Math.min(end - start, otherEnd - otherStart)
  const order = tree.content.compare(
    other.content,
    otherStart,
    otherStart + length,
    start,
    start + length,
  )
  if (order !== 0) return order
  return (
    byteAfter(tree, index, start + length, end) -
    byteAfter(other, otherIndex, otherStart + length, otherEnd)
  )
}

/** The byte of a name at an offset; at its end the slash of a folder, or 0. */
function byteAfter(
  { content, starts }: TreeBuffer,
  index: number,
  at: number,
  end: number,
): number {
  if (at < end) return content[at] ?? 0
  const isFolder = content[starts[index] ?? 0] !== one
  return isFolder ? (slash ?? 0) : 0
}

/** Where the name of an entry starts and ends. */
function nameRange({ content, starts, format }: TreeBuffer, index: number): [number, number] {
  let nameStart = (starts[index] ?? 0) + modeMinDigits
  while (content[nameStart - 1] !== space) nameStart += 1
  return [nameStart, (starts[index + 1] ?? 0) - idBytes(format) - 1]
}

/** The ranges of entries outside of which two trees are alike. */
function differingEntries(tree: TreeBuffer, other: TreeBuffer): [number, number, number, number] {
  const first = indexAt(tree.starts, commonStart(tree.content, other.content))
  const shift = other.content.length - tree.content.length
  const shared = Math.min(tree.content.length, other.content.length)
  // The entries of the common end have the same distance from the end in both.
  const endAt = tree.content.length - commonEnd(tree.content, other.content, shared)
  let last = Math.max(first, indexAt(tree.starts, endAt))
  if ((tree.starts[last] ?? 0) < endAt) last = Math.min(last + 1, entryCount(tree))
  for (; last < entryCount(tree); last++) {
    const offset = (tree.starts[last] ?? 0) + shift
    const index = offset < 0 ? 0 : indexAt(other.starts, offset)
    // An entry of the end that both have, with the same start.
    if (offset >= 0 && index >= first && other.starts[index] === offset)
      return [first, last, first, index]
  }
  return [first, entryCount(tree), first, entryCount(other)]
}

/** The number of bytes with which both begin. */
function commonStart(one: Buffer, other: Buffer): number {
  const length = Math.min(one.length, other.length)
  let at = 0
  while (at < length) {
    const end = Math.min(at + compareBytes, length)
    if (one.compare(other, at, end, at, end) !== 0) break
    at = end
  }
  while (at < length && one[at] === other[at]) at += 1
  return at
}

/** The number of bytes with which both end, up to a limit. */
function commonEnd(one: Buffer, other: Buffer, limit: number): number {
  let length = 0
  while (length < limit) {
    const size = Math.min(compareBytes, limit - length)
    const [end, otherEnd] = [one.length - length, other.length - length]
    if (one.compare(other, otherEnd - size, otherEnd, end - size, end) !== 0) break
    length += size
  }
  while (length < limit && one[one.length - 1 - length] === other[other.length - 1 - length])
    length += 1
  return length
}

/** The end of the entry at an offset. Throws a MalformedTreeError. */
function endOfEntry(content: Buffer, at: number, format: ObjectFormat): number {
  let nameStart = at
  for (let byte = content[nameStart]; byte !== space; byte = content[nameStart]) {
    const isDigit = byte !== undefined && byte >= (zero ?? 0) && byte <= (seven ?? 0)
    if (!isDigit || nameStart - at > modeMaxDigits) throw new MalformedTreeError('no mode')
    nameStart += 1
  }
  nameStart += 1
  const nul = content.indexOf(0, nameStart)
  const end = nul + 1 + idBytes(format)
  if (nameStart - at < 2 || nul <= nameStart || end > content.length)
    throw new MalformedTreeError('an incomplete entry')
  return end
}

/** The mode as git understands it: canon_mode in Git's cache.h. */
function canonicalMode(stored: string): string {
  const mode = Number.parseInt(stored, 8)
  switch (mode & 0o170000) {
    case 0o100000:
      return mode & 0o100 ? '100755' : '100644'
    case 0o120000:
      return '120000'
    case 0o040000:
      return '40000'
    default:
      return '160000'
  }
}
