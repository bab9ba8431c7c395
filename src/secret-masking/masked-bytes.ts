import type { FormIndex, Found } from './form-index.ts'
import { PartialMatch } from './partial-match.ts'
import type { Words } from './words.ts'

const stars = Buffer.from('***')

/** Where something to be masked stands in the stream. */
type Region = { start: number; end: number }

/**
 * Masks a stream of bytes. What overlaps is masked as one. At most as many bytes are held back as the longest form
 * has. What it gives may share memory with what it was given.
 */
export class MaskedBytes {
  readonly #index: FormIndex
  readonly #words: Words
  /** What is held back, and from where on in the stream. */
  #text: Buffer = Buffer.alloc(0)
  #textStart = 0
  /** The byte before it. */
  #before: number | undefined
  /** Up to here all places were looked at. */
  #scanned = 0
  #regions: Region[] = []
  /** Up to here the stream is covered by the last `***`. */
  #coveredUntil = 0
  readonly #partials = new Map<number, PartialMatch>()
  /** Whether anything was masked so far. */
  hasFound = false

  constructor(index: FormIndex, words: Words) {
    this.#index = index
    this.#words = words
  }

  push(chunk: Buffer): Buffer {
    this.#text = this.#text.length === 0 ? chunk : Buffer.concat([this.#text, chunk])
    for (const partial of this.#partials.values()) if (partial.isRunning) this.#read(partial)
    this.#scan(false)
    return this.#giveOut()
  }

  end(): Buffer {
    this.#scan(true)
    this.#partials.clear()
    return this.#giveOut()
  }

  /** Looks at each place where something may begin, until the text is too short to tell. `isWhole` when no more comes. */
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

  /** Follows the forms that begin at a place; false when the text is too short to tell. */
  #begin(at: number, isWhole: boolean): boolean {
    const found: Found[] = []
    if (!this.#index.find(this.#text, at, found) && !isWhole) return false
    if (found.length === 0) return true
    const start = this.#textStart + at
    for (const { id, headLength } of found) {
      const known = this.#partials.get(id)
      // It reads on by itself, and so finds what begins within it.
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
    // A text of one letter has a form of that letter at each of its places.
    if (last !== undefined && start >= last.start && start < last.end) {
      last.end = Math.max(last.end, end)
    } else this.#regions.push({ start, end })
  }

  /** Gives what nothing that is yet to come can cover. */
  #giveOut(): Buffer {
    let safe = this.#scanned
    for (const [id, partial] of this.#partials) {
      if (partial.isRunning) safe = Math.min(safe, partial.start)
      else if (partial.start <= this.#scanned) this.#partials.delete(id)
    }
    const pieces = this.#maskUntil(safe)
    const given = safe - this.#textStart
    if (given > 0) this.#before = this.#text[given - 1]
    // Copied, so that a few bytes do not keep a whole chunk in memory.
    this.#text = Buffer.from(this.#text.subarray(given))
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
