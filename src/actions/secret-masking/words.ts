/** Very short values, which are masked only where no letter, digit or `_` is beside them. */
export class Words {
  /** By their bytes as an integer: true for a word, false for the beginning of one. */
  readonly #known = new Map<number, boolean>()
  /** 1 for each byte that starts a word. */
  readonly firsts = new Uint8Array(256)
  size = 0

  add(word: Buffer): void {
    let bytes = noBytes
    for (const byte of word) {
      bytes = (bytes << 8) | byte
      if (!this.#known.has(bytes)) this.#known.set(bytes, false)
    }
    this.#known.set(bytes, true)
    this.firsts[word[0] ?? 0] = 1
    this.size++
  }

  /** The length of the longest word at an offset, or 0; undefined when the text is too short to decide. */
  lengthAt(
    text: Buffer,
    start: number,
    { before, isComplete }: { before: number | undefined; isComplete: boolean },
  ): number | undefined {
    if (isLetter(before)) return 0
    let longest = 0
    let bytes = noBytes
    for (let end = start + 1; end <= text.length; end++) {
      bytes = (bytes << 8) | (text[end - 1] ?? 0)
      const isWord = this.#known.get(bytes)
      if (isWord === undefined) return longest
      if (end === text.length && !isComplete) return undefined
      if (isWord && !isLetter(text[end])) longest = end - start
    }
    return longest
  }
}

/** Distinguishes beginnings of different lengths. */
const noBytes = 1

/** Bytes beyond ASCII count as letters. */
function isLetter(byte: number | undefined): boolean {
  return byte !== undefined && (byte >= 0x80 || /\w/.test(String.fromCharCode(byte)))
}
