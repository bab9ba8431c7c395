import { FormAutomaton, toFormBytes } from './form-automaton.ts'
import { type Form, formMinBytes } from './forms.ts'

/** Slots of the filter: at least as many as fit the processor's cache, and some for each form, so false positives are rare. */
const filterMinSize = 65_536
const filterSlotsPerForm = 64

/** An odd multiplier with well-spread bits, for multiplicative hashing. */
const spread = 0x9e3779b1

/**
 * The forms to find in texts. A filter checks four bytes first, so a text without secrets is scanned at hundreds of
 * megabytes a second.
 */
export class FormIndex {
  /** Replaced by another list when forms are added. An automaton that is no longer listed was merged into a newer one. */
  automata: readonly FormAutomaton[] = []
  /** By the hash of four bytes: 0 when no form starts with them. */
  #filter = new Uint8Array(filterMinSize)
  #shift = 32 - Math.log2(filterMinSize)
  readonly #beginnings = new Set<number>()
  /** 1 for each byte that starts a form. */
  readonly #firsts = new Uint8Array(256)

  /** As in a binary counter, each automaton is larger than those after it, so each form is merged O(log n) times. */
  add(added: readonly Form[]): void {
    let forms = added.filter(({ head }) => head.length >= formMinBytes).map(toFormBytes)
    if (forms.length === 0) return
    for (const { bytes } of forms) this.#addToFilter(Buffer.from(bytes.slice(0, 4), 'latin1'))
    const automata = [...this.automata]
    for (;;) {
      const last = automata.at(-1)
      if (last === undefined || last.forms.length > forms.length) break
      automata.pop()
      forms = [...last.forms, ...forms]
    }
    this.automata = [...automata, new FormAutomaton(forms)]
  }

  /** The next offset where a form may start; else the end. */
  next(text: Buffer, start: number): number {
    const filter = this.#filter
    const shift = this.#shift
    const end = text.length - 3
    let word = wordAt(text, start) >>> 8
    // The hot loop: all output passes through it.
    for (let at = start; at < end; at++) {
      word = (word << 8) | (text[at + 3] ?? 0)
      if (filter[Math.imul(word, spread) >>> shift] !== 0) return at
    }
    return this.#nextAtEnd(text, Math.max(start, end))
  }

  #nextAtEnd(text: Buffer, start: number): number {
    let at = start
    while (at < text.length && this.#firsts[byteAt(text, at)] === 0) at++
    return at
  }

  #addToFilter(beginning: Buffer): void {
    const word = wordAt(beginning, 0)
    this.#firsts[byteAt(beginning, 0)] = 1
    this.#beginnings.add(word)
    if (this.#beginnings.size * filterSlotsPerForm > this.#filter.length) {
      this.#filter = new Uint8Array(this.#filter.length * 4)
      this.#shift -= 2
      for (const known of this.#beginnings) this.#mark(known)
    } else this.#mark(word)
  }

  #mark(word: number): void {
    this.#filter[Math.imul(word, spread) >>> this.#shift] = 1
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
