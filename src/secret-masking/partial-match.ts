/** A partial match of a form in a stream. Offsets count the bytes of the stream from 0. */
export class PartialMatch {
  readonly #bytes: Buffer
  readonly #headLength: number
  /** The failure function: for each prefix length, the length of its longest proper border. Computed lazily. */
  readonly #borders: number[] = [0, 0]
  #matched: number
  #position: number
  #isRunning = true

  /** `head` bytes of the form are known to match at `start`. */
  constructor({ bytes, head, start }: { bytes: Buffer; head: number; start: number }) {
    this.#bytes = bytes
    this.#headLength = head
    this.#matched = head
    this.#position = start + head
  }

  /** Whether the stream so far ends with at least the head of the form. */
  get isRunning(): boolean {
    return this.#isRunning
  }

  /** The earliest offset where an unreported match may start. */
  get start(): number {
    return this.#position - this.#matched
  }

  /**
   * Reads the next bytes and reports matches. Reads each byte about twice at most, for any form (Knuth, Morris, Pratt).
   */
  read(text: Buffer, textStart: number, onMatch: (start: number, end: number) => void): void {
    const bytes = this.#bytes
    let matched = this.#matched
    let index = this.#position - textStart
    this.#isRunning = this.#finishMatch(matched, textStart + index, onMatch)
    matched = this.#matched
    while (this.#isRunning && index < text.length) {
      const byte = text[index]
      if (bytes[matched] === byte) matched++
      else {
        while (matched > 0 && bytes[matched] !== byte) matched = this.#borderOf(matched)
        if (bytes[matched] === byte) matched++
      }
      index++
      if (matched < this.#headLength || matched === bytes.length) {
        this.#isRunning = this.#finishMatch(matched, textStart + index, onMatch)
        matched = this.#matched
      }
    }
    this.#matched = matched
    this.#position = textStart + index
  }

  /** Reports a complete match; returns whether to continue. */
  #finishMatch(
    matched: number,
    end: number,
    onMatch: (start: number, end: number) => void,
  ): boolean {
    const isWhole = matched === this.#bytes.length
    if (isWhole) onMatch(end - matched, end)
    this.#matched = isWhole ? this.#borderOf(matched) : matched
    return this.#matched >= this.#headLength
  }

  #borderOf(length: number): number {
    const borders = this.#borders
    while (borders.length <= length) {
      const last = this.#bytes[borders.length - 1]
      let border = borders[borders.length - 1] ?? 0
      while (border > 0 && this.#bytes[border] !== last) border = borders[border] ?? 0
      borders.push(this.#bytes[border] === last ? border + 1 : 0)
    }
    return borders[length] ?? 0
  }
}
