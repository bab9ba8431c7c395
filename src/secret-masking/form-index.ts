import { type Form, formMinBytes, headLength } from './forms.ts'

/** A form by its id, and the length of the head by which it was found. */
export type Found = { id: number; headLength: number }

/** A form is indexed by the longest of these heads that it has: long heads distinguish forms with a common prefix, such as URLs. */
const headLengths = [formMinBytes, 8, 12, 16, 20, 24, 28, headLength]

/** Slots of a filter: at least as many as fit the processor's cache, and some for each form, so false positives are rare. */
const filterMinSize = 65_536
const filterSlotsPerForm = 16

/** An odd multiplier with well-spread bits, for multiplicative hashing. */
const spread = 0x9e3779b1
const mix = 0x85ebca6b

/**
 * Finds the forms that start at an offset of a text. Small filters check four bytes first, then eight, so a text
 * without secrets is scanned at hundreds of megabytes a second. All bytes are in one buffer, so 200,000 lines of
 * secrets take little memory.
 */
export class FormIndex {
  /** By the hash of four bytes: 0 when no form starts with them. */
  #fourBytes = new Uint8Array(filterMinSize)
  #eightBytes = new Uint8Array(filterMinSize)
  /** By the hash of the last one to three bytes of a text. */
  readonly #fewBytes = new Uint8Array(filterMinSize)
  #shift = 32 - Math.log2(filterMinSize)
  readonly #tables = headLengths.map((length) => ({ length, last: new Map<number, number>() }))
  #bytes = Buffer.alloc(filterMinSize)
  #used = 0
  readonly #starts: number[] = []
  readonly #lengths: number[] = []
  /** The previous form with the same hash of its head, or -1. */
  readonly #earlier: number[] = []
  readonly #known = new Set<string>()
  readonly #deferred = new Map<number, () => Buffer>()

  add({ head, bytes }: Form): void {
    const table = this.#tables.findLast(({ length }) => length <= head.length)
    if (table === undefined) return
    if (bytes === undefined) {
      const written = head.toString('latin1')
      if (this.#known.has(written)) return
      this.#known.add(written)
    }
    const hash = hashOf(head, table.length)
    const earlier = table.last.get(hash) ?? -1
    const id = this.#starts.length
    table.last.set(hash, id)
    if (bytes !== undefined) this.#deferred.set(id, bytes)
    this.#earlier.push(earlier)
    this.#append(head)
    if (this.#starts.length * filterSlotsPerForm > this.#fourBytes.length) this.#growFilters()
    else this.#addToFilters(id)
  }

  /** The next offset where a form, or a word with one of these first bytes, may start; else three bytes before the end. */
  next(text: Buffer, start: number, firsts: Uint8Array | undefined): number {
    const filter = this.#fourBytes
    const shift = this.#shift
    const end = text.length - 3
    let word = wordAt(text, start) >>> 8
    // The hot loop: all output passes through it.
    for (let at = start; at < end; at++) {
      word = (word << 8) | byteAt(text, at + 3)
      if (filter[Math.imul(word, spread) >>> shift] !== 0) return at
      if (firsts !== undefined && firsts[byteAt(text, at)] !== 0) return at
    }
    return Math.max(start, end)
  }

  /** Whether a form may start with the last one to three bytes of a text. */
  mayBegin(text: Buffer, start: number): boolean {
    return this.#fewBytes[fewBytesAt(text, start, text.length - start)] !== 0
  }

  /** Adds the forms whose heads are at an offset to `found`; false when the text is too short to decide. */
  find(text: Buffer, start: number, found: Found[]): boolean {
    for (const { length, last } of this.#tables) {
      if (last.size === 0) continue
      const isDecided = start + length <= text.length
      if (length > formMinBytes) {
        if (start + 8 > text.length) return false
        if (this.#eightBytes[hashOf(text, 8, start) >>> this.#shift] === 0) return true
        if (!isDecided) return false
      }
      let id = last.get(hashOf(text, length, start)) ?? -1
      for (; id !== -1; id = this.#earlier[id] ?? -1) {
        const own = this.#starts[id] ?? 0
        if (isEqual(this.#bytes, own, text, start, length)) found.push({ id, headLength: length })
      }
    }
    return true
  }

  bytesOf(id: number): Buffer {
    const late = this.#deferred.get(id)
    if (late !== undefined) return late()
    const start = this.#starts[id] ?? 0
    return this.#bytes.subarray(start, start + (this.#lengths[id] ?? 0))
  }

  #append(bytes: Buffer): void {
    const end = this.#used + bytes.length
    if (end > this.#bytes.length) {
      const larger = Buffer.alloc(2 * end)
      this.#bytes.copy(larger)
      this.#bytes = larger
    }
    this.#starts.push(this.#used)
    this.#lengths.push(bytes.length)
    bytes.copy(this.#bytes, this.#used)
    this.#used = end
  }

  #addToFilters(id: number): void {
    const start = this.#starts[id] ?? 0
    this.#fourBytes[Math.imul(wordAt(this.#bytes, start), spread) >>> this.#shift] = 1
    if ((this.#lengths[id] ?? 0) >= 8) {
      this.#eightBytes[hashOf(this.#bytes, 8, start) >>> this.#shift] = 1
    }
    for (const length of [1, 2, 3]) this.#fewBytes[fewBytesAt(this.#bytes, start, length)] = 1
  }

  #growFilters(): void {
    this.#fourBytes = new Uint8Array(this.#fourBytes.length * 4)
    this.#eightBytes = new Uint8Array(this.#fourBytes.length)
    this.#shift -= 2
    for (const id of this.#starts.keys()) this.#addToFilters(id)
  }
}

/** Four bytes as an integer. */
function wordAt(bytes: Buffer, start: number): number {
  return (
    (byteAt(bytes, start) << 24) |
    (byteAt(bytes, start + 1) << 16) |
    (byteAt(bytes, start + 2) << 8) |
    byteAt(bytes, start + 3)
  )
}

function byteAt(bytes: Buffer, index: number): number {
  return bytes[index] ?? 0
}

function hashOf(bytes: Buffer, length: number, start = 0): number {
  let hash = 0
  for (let offset = 0; offset < length; offset += 4) {
    hash = Math.imul(hash ^ wordAt(bytes, start + offset), spread)
    hash = Math.imul(hash ^ (hash >>> 15), mix)
  }
  return hash
}

function fewBytesAt(bytes: Buffer, start: number, length: number): number {
  let value = length
  for (let offset = 0; offset < length; offset++)
    value = (value << 8) | byteAt(bytes, start + offset)
  return Math.imul(value, spread) >>> 16
}

function isEqual(a: Buffer, aStart: number, b: Buffer, bStart: number, length: number): boolean {
  for (let offset = 0; offset < length; offset++) {
    if (a[aStart + offset] !== b[bStart + offset]) return false
  }
  return true
}
