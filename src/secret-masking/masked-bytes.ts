import type { FormIndex, Found } from './form-index.ts'
import { PartialMatch } from './partial-match.ts'
import type { Words } from './words.ts'

const stars = Buffer.from('***')

/** A range of the stream to mask. */
type Region = { start: number; end: number }

/**
 * Masks a stream of bytes. Overlapping forms become one mask. Holds back at most as many bytes as the longest form
 * has. The output may share memory with the input.
 */
export class MaskedBytes {
  readonly #index: FormIndex
  readonly #words: Words
  /** The held-back bytes, and their offset in the stream. */
  #text: Buffer = Buffer.alloc(0)
  #textStart = 0
  /** The byte before them. */
  #before: number | undefined
  /** All offsets before this one have been scanned. */
  #scanned = 0
  #regions: Region[] = []
  /** The end of the range that the last `***` covers. */
  #coveredUntil = 0
  readonly #partials = new Map<number, PartialMatch>()
  /** Whether anything has been masked. */
  hasFound = false

  constructor(index: FormIndex, words: Words) {
    this.#index = index
    this.#words = words
  }

  push(chunk: Buffer): Buffer {
    this.#text = this.#text.length === 0 ? chunk : Buffer.concat([this.#text, chunk])
    for (const partial of this.#partials.values()) if (partial.isRunning) this.#read(partial)
    this.#scan(false)
    return this.#flush()
  }

  end(): Buffer {
    this.#scan(true)
    this.#partials.clear()
    return this.#flush()
  }

  /** Scans offsets where a form may start, until the text is too short to decide. `isWhole`: no more input follows. */
  #scan(isWhole: boolean): void {
    const text = this.#text
    const firsts = this.#words.size > 0 ? this.#words.firsts : undefined
    const end = text.length - 3
    let at = this.#scanned - this.#textStart
    for (; at < text.length; at++) {
      if (at < end) at = this.#index.next(text, at, firsts)
      if (at < end ? !this.#begin(at, isWhole) : !isWhole && this.#index.mayBegin(text, at)) break
      if (firsts !== undefined && !this.#findWord(at, isWhole)) break
    }
    this.#scanned = this.#textStart + at
  }

  /** Starts matching the forms at an offset; false when the text is too short to decide. */
  #begin(at: number, isWhole: boolean): boolean {
    const found: Found[] = []
    if (!this.#index.find(this.#text, at, found) && !isWhole) return false
    if (found.length === 0) return true
    const start = this.#textStart + at
    for (const { id, headLength } of found) {
      const known = this.#partials.get(id)
      // A running match also finds occurrences that start within it.
      if (known !== undefined && (known.isRunning || start < known.start)) continue
      const partial = new PartialMatch({ bytes: this.#index.bytesOf(id), head: headLength, start })
      this.#partials.set(id, partial)
      this.#read(partial)
    }
    return true
  }

  #findWord(at: number, isWhole: boolean): boolean {
    const before = at === 0 ? this.#before : this.#text[at - 1]
    const length = this.#words.lengthAt(this.#text, at, { before, isWhole })
    if (length === undefined) return false
    const start = this.#textStart + at
    if (length > 0) this.#cover(start, start + length)
    return true
  }

  #read(partial: PartialMatch): void {
    partial.read(this.#text, this.#textStart, (start, end) => this.#cover(start, end))
  }

  #cover(start: number, end: number): void {
    this.hasFound = true
    const last = this.#regions.at(-1)
    // Merged: a text of one repeated letter matches at each offset.
    if (last !== undefined && start >= last.start && start < last.end) {
      last.end = Math.max(last.end, end)
    } else this.#regions.push({ start, end })
  }

  /** Returns the output that no later match can cover. */
  #flush(): Buffer {
    let safe = this.#scanned
    for (const [id, partial] of this.#partials) {
      if (partial.isRunning) safe = Math.min(safe, partial.start)
      else if (partial.start <= this.#scanned) this.#partials.delete(id)
    }
    const pieces = this.#maskUntil(safe)
    const flushed = safe - this.#textStart
    if (flushed > 0) this.#before = this.#text[flushed - 1]
    // Copied, so that a few bytes do not retain a whole chunk.
    this.#text = Buffer.from(this.#text.subarray(flushed))
    this.#textStart = safe
    const [first, second] = pieces
    return second === undefined && first !== undefined ? first : Buffer.concat(pieces)
  }

  #maskUntil(safe: number): Buffer[] {
    const pieces: Buffer[] = []
    const showUntil = (end: number) => {
      const start = Math.max(this.#textStart, this.#coveredUntil)
      if (end <= start) return
      pieces.push(this.#text.subarray(start - this.#textStart, end - this.#textStart))
    }
    this.#regions.sort((a, b) => a.start - b.start)
    const later = this.#regions.findIndex(({ start }) => start >= safe)
    for (const { start, end } of this.#regions.splice(0, later === -1 ? Infinity : later)) {
      if (start >= this.#coveredUntil) {
        showUntil(start)
        pieces.push(stars)
      }
      this.#coveredUntil = Math.max(this.#coveredUntil, end)
    }
    showUntil(safe)
    return pieces
  }
}
