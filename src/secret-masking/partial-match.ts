/** A form that has begun in a stream. Offsets count the bytes of the stream from 0. */
export class PartialMatch {
  readonly #bytes: Buffer
  readonly #least: number
  /** For each length of a beginning that of its longest shorter beginning that is also its end; as far as it was needed. */
  readonly #borders: number[] = [0, 0]
  #matched: number
  #position: number
  #isRunning = true

  /** `head` bytes of the form stand at `start`. */
  constructor({ bytes, head, start }: { bytes: Buffer; head: number; start: number }) {
    this.#bytes = bytes
    this.#least = head
    this.#matched = head
    this.#position = start + head
  }

  /** Whether what has come ends with more than the head of the form. */
  get isRunning(): boolean {
    return this.#isRunning
  }

  /** Where the form may still begin; whatever began before has been told. */
  get start(): number {
    return this.#position - this.#matched
  }

  /**
   * Reads on, and tells where the form stands. However often a form begins anew within itself, each byte is read
   * about twice. (Knuth, Morris, Pratt.)
   */
  read(text: Buffer, textStart: number, onMatch: (start: number, end: number) => void): void {
    const bytes = this.#bytes
    let matched = this.#matched
    let index = this.#position - textStart
    this.#isRunning = this.#settle(matched, textStart + index, onMatch)
    matched = this.#matched
    while (this.#isRunning && index < text.length) {
      const byte = text[index]
      if (bytes[matched] === byte) matched++
      else {
        while (matched > 0 && bytes[matched] !== byte) matched = this.#borderOf(matched)
        if (bytes[matched] === byte) matched++
      }
      index++
      if (matched < this.#least || matched === bytes.length) {
        this.#isRunning = this.#settle(matched, textStart + index, onMatch)
        matched = this.#matched
      }
    }
    this.#matched = matched
    this.#position = textStart + index
  }

  /** Tells a whole form, and whether there is reason to go on. */
  #settle(matched: number, end: number, onMatch: (start: number, end: number) => void): boolean {
    const isWhole = matched === this.#bytes.length
    if (isWhole) onMatch(end - matched, end)
    this.#matched = isWhole ? this.#borderOf(matched) : matched
    return this.#matched >= this.#least
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
