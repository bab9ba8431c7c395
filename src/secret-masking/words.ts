/** Very short values, which are masked only where no letter, digit or `_` is beside them. */
export class Words {
  readonly #byFirst: Buffer[][] = []
  /** 1 for each byte that starts a word. */
  readonly firsts = new Uint8Array(256)
  size = 0

  add(word: Buffer): void {
    const first = word[0] ?? 0
    const words = this.#byFirst[first] ?? []
    if (words.some((known) => known.equals(word))) return
    this.#byFirst[first] = [...words, word]
    this.firsts[first] = 1
    this.size++
  }

  /** The length of the longest word at an offset, or 0; undefined when the text is too short to decide. */
  lengthAt(
    text: Buffer,
    start: number,
    { before, isWhole }: { before: number | undefined; isWhole: boolean },
  ): number | undefined {
    const words = this.#byFirst[text[start] ?? 0]
    if (words === undefined || isLetter(before)) return 0
    let longest = 0
    for (const word of words) {
      const end = start + word.length
      const standing = text.subarray(start, end)
      if (!isWhole && end >= text.length && word.subarray(0, standing.length).equals(standing)) {
        return undefined
      }
      if (standing.equals(word) && !isLetter(text[end])) longest = Math.max(longest, word.length)
    }
    return longest
  }
}

/** Bytes beyond ASCII count as letters. */
function isLetter(byte: number | undefined): boolean {
  return byte !== undefined && (byte >= 0x80 || /\w/.test(String.fromCharCode(byte)))
}
