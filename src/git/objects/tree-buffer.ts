import { createTimeSlices } from '../../base/time-slices.ts'
import type { TreeEntry } from './object-reader.ts'

/**
 * A tree object as it is stored, with the offset of each entry and, last, of its end. Kept like this, it takes a few
 * bytes an entry besides its content.
 */
export type TreeBuffer = { content: Buffer; starts: Uint32Array }

/** Thrown for a tree that is not well formed. */
export class MalformedTreeError extends Error {
  override readonly name = 'MalformedTreeError'
}

const idBytes = 20
const modeMaxDigits = 7
const [space, zero, seven] = Buffer.from(' 07')
// An entry has at least a digit, a space, a letter, a NUL and an id.
const entryMinBytes = 24
const entriesPerCheck = 4096
const compareBytes = 16 * 1024

/** Finds the entries of a tree. Throws a MalformedTreeError. */
export async function toTreeBuffer(content: Buffer): Promise<TreeBuffer> {
  const starts = new Uint32Array(Math.floor(content.length / entryMinBytes) + 2)
  const slices = createTimeSlices()
  let count = 0
  for (let at = 0; at < content.length; at = endOfEntry(content, at)) {
    if (count % entriesPerCheck === 0) await slices.rest()
    if (count + 1 >= starts.length) throw new MalformedTreeError('entries without names')
    starts[count] = at
    count += 1
  }
  starts[count] = content.length
  return { content, starts: starts.slice(0, count + 1) }
}

export function entryCount({ starts }: TreeBuffer): number {
  return starts.length - 1
}

/** The entry at an index. Its name is raw: each character is a byte (latin1). */
export function entryAt({ content, starts }: TreeBuffer, index: number): TreeEntry {
  const start = starts[index] ?? 0
  const end = starts[index + 1] ?? 0
  const nameStart = content.indexOf(space ?? 0, start) + 1
  return {
    mode: canonicalMode(content.toString('latin1', start, nameStart - 1)),
    name: content.toString('latin1', nameStart, end - idBytes - 1),
    id: content.toString('hex', end - idBytes, end),
  }
}

/** The entry of a raw name. */
export function entryNamed(tree: TreeBuffer, name: string): TreeEntry | undefined {
  const { content, starts } = tree
  const wanted = Buffer.from(` ${name}\0`, 'latin1')
  for (let at = content.indexOf(wanted); at !== -1; at = content.indexOf(wanted, at + 1)) {
    // The bytes may also be within an id.
    const index = indexAt(starts, at)
    const isName = content.indexOf(space ?? 0, starts[index]) === at
    if (isName && starts[index + 1] === at + wanted.length + idBytes) return entryAt(tree, index)
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
 * versions of a folder are alike, so only those between their common start and their common end are compared.
 */
export function changedNames(tree: TreeBuffer, other: TreeBuffer): string[] {
  const [from, to, otherFrom, otherTo] = differingEntries(tree, other)
  const others = new Map<string, string>()
  for (let index = otherFrom; index < otherTo; index++) {
    const { name, mode, id } = entryAt(other, index)
    others.set(name, mode + id)
  }
  const changed: string[] = []
  for (let index = from; index < to; index++) {
    const { name, mode, id } = entryAt(tree, index)
    if (others.get(name) !== mode + id) changed.push(name)
  }
  return changed
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
function endOfEntry(content: Buffer, at: number): number {
  let nameStart = at
  for (let byte = content[nameStart]; byte !== space; byte = content[nameStart]) {
    const isDigit = byte !== undefined && byte >= (zero ?? 0) && byte <= (seven ?? 0)
    if (!isDigit || nameStart - at > modeMaxDigits) throw new MalformedTreeError('no mode')
    nameStart += 1
  }
  nameStart += 1
  const nul = content.indexOf(0, nameStart)
  const end = nul + 1 + idBytes
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
