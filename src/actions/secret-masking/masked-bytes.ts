import type { FormAutomaton, FormState } from './form-automaton.ts'
import type { FormIndex } from './form-index.ts'
import type { Words } from './words.ts'

const stars = Buffer.from('***')
const noBytes = Buffer.alloc(0)

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
  #text: Buffer = noBytes
  #textStart = 0
  /** Where the held-back bytes are, with space for more behind them. */
  #store: Buffer = noBytes
  /** The byte before them. */
  #before: number | undefined
  /** All offsets before this one have been scanned. */
  #scanned = 0
  #wordsScanned = 0
  #automata: readonly FormAutomaton[] = []
  #states: FormState[] = []
  /** In order, without overlap. */
  readonly #regions: Region[] = []
  /** The end of the range that the last `***` covers. */
  #coveredUntil = 0
  /** Whether anything has been masked. */
  hasFound = false

  constructor(index: FormIndex, words: Words) {
    this.#index = index
    this.#words = words
  }

  push(chunk: Buffer): Buffer {
    this.#append(chunk)
    this.#followIndex()
    this.#scan()
    this.#scanWords(false)
    return this.#flush(chunk)
  }

  end(): Buffer {
    this.#scanWords(true)
    this.#states = this.#automata.map(({ root }) => root)
    return this.#flush(noBytes)
  }

  // Bytes that are held back are copied only when the space behind them is used up.
  #append(chunk: Buffer): void {
    const { length } = this.#text
    if (length === 0) {
      this.#text = chunk
      return
    }
    let start = this.#text.byteOffset - this.#store.byteOffset
    if (start + length + chunk.length > this.#store.length) {
      this.#store = Buffer.alloc(2 * (length + chunk.length))
      this.#text.copy(this.#store)
      start = 0
    }
    chunk.copy(this.#store, start + length)
    this.#text = this.#store.subarray(start, start + length + chunk.length)
  }

  /** Takes over the automata of the index. A new one reads again the bytes that were held back for those that it replaces. */
  #followIndex(): void {
    const former = this.#automata
    const { automata } = this.#index
    if (automata === former) return
    const states = new Map(former.map((automaton, index) => [automaton, this.#states[index]]))
    const depths = former.map((automaton, index) =>
      automata.includes(automaton) ? 0 : (this.#states[index]?.depth ?? 0),
    )
    const start = this.#scanned - Math.max(0, ...depths)
    this.#automata = automata
    this.#states = automata.map((automaton) => {
      let state = states.get(automaton)
      if (state !== undefined) return state
      state = automaton.root
      for (let at = start; at < this.#scanned; at++) state = this.#read(automaton, state, at)
      return state
    })
  }

  #scan(): void {
    const text = this.#text
    const [automata, states] = [this.#automata, this.#states]
    let isRunning = states.some(({ depth }) => depth > 0)
    let at = this.#scanned - this.#textStart
    while (at < text.length) {
      if (!isRunning) at = this.#index.next(text, at)
      if (at === text.length || this.#coveredUntil === Infinity) break
      isRunning = false
      for (let index = 0; index < automata.length; index++) {
        const [automaton, former] = [automata[index], states[index]]
        if (automaton === undefined || former === undefined) continue
        const state = this.#read(automaton, former, this.#textStart + at)
        states[index] = state
        isRunning ||= state.depth > 0
      }
      at++
    }
    this.#scanned = this.#textStart + text.length
  }

  /** Reads the byte at an offset of the stream. */
  #read(automaton: FormAutomaton, former: FormState, at: number): FormState {
    const state = automaton.step(former, this.#text[at - this.#textStart] ?? 0)
    if (state === undefined) {
      // Better too much than a secret.
      this.#cover(at - former.depth, Infinity)
      return automaton.root
    }
    if (state.longest > 0) this.#cover(at + 1 - state.longest, at + 1)
    return state
  }

  /** Scans offsets where a word may start, until the text is too short to decide. `isComplete`: no more input follows. */
  #scanWords(isComplete: boolean): void {
    if (this.#words.size === 0) {
      this.#wordsScanned = this.#scanned
      return
    }
    const text = this.#text
    const { firsts } = this.#words
    let at = this.#wordsScanned - this.#textStart
    for (; at < text.length; at++) {
      if (firsts[text[at] ?? 0] === 0) continue
      const before = at === 0 ? this.#before : text[at - 1]
      const length = this.#words.lengthAt(text, at, { before, isComplete })
      if (length === undefined) break
      const start = this.#textStart + at
      if (length > 0) this.#cover(start, start + length)
    }
    this.#wordsScanned = this.#textStart + at
  }

  #cover(start: number, end: number): void {
    this.hasFound = true
    const regions = this.#regions
    const first = this.#firstEndingAfter(start)
    let last = first
    let [from, to] = [start, end]
    for (let next = regions[last]; next && next.start < end; next = regions[++last]) {
      from = Math.min(from, next.start)
      to = Math.max(to, next.end)
    }
    regions.splice(first, last - first, { start: from, end: to })
  }

  /** The index of the first region that ends behind an offset. */
  #firstEndingAfter(offset: number): number {
    const regions = this.#regions
    let [low, high] = [0, regions.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((regions[middle]?.end ?? 0) <= offset) low = middle + 1
      else high = middle
    }
    return low
  }

  /** Returns the output that no later match can cover. */
  #flush(chunk: Buffer): Buffer {
    const depth = Math.max(0, ...this.#states.map((state) => state.depth))
    const safe = Math.min(this.#scanned - depth, this.#wordsScanned)
    const pieces = this.#maskUntil(safe)
    const flushed = safe - this.#textStart
    if (flushed > 0) this.#before = this.#text[flushed - 1]
    this.#hold(this.#text.subarray(flushed), this.#text === chunk)
    this.#textStart = safe
    const [first, second] = pieces
    return second === undefined && first !== undefined ? first : Buffer.concat(pieces)
  }

  // A chunk may be overwritten, so a copy is held.
  #hold(rest: Buffer, isOfChunk: boolean): void {
    if (rest.length === 0 || isOfChunk) {
      this.#store = Buffer.from(rest)
      this.#text = this.#store
    } else this.#text = rest
  }

  #maskUntil(safe: number): Buffer[] {
    const pieces: Buffer[] = []
    const showUntil = (end: number) => {
      const start = Math.max(this.#textStart, this.#coveredUntil)
      if (end <= start) return
      pieces.push(this.#text.subarray(start - this.#textStart, end - this.#textStart))
    }
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
