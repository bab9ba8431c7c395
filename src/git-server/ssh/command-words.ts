const piece = /'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^\s'"\\]+)/gsy
const space = /\s+/gy

/**
 * Splits a command line into words, with the quotes of a shell as Git writes them (quote.c, sq_quote_buf) and people
 * type them. Nothing is expanded. Undefined when a quote is not closed.
 */
export function toWords(line: string): string[] | undefined {
  const words: string[] = []
  let word: string | undefined
  let position = 0
  const match = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = position
    const found = pattern.exec(line)
    if (found) position = pattern.lastIndex
    return found
  }
  while (position < line.length) {
    if (match(space)) {
      if (word !== undefined) words.push(word)
      word = undefined
      continue
    }
    const found = match(piece)
    if (!found) return undefined
    const [, single, double, escaped, plain] = found
    word = (word ?? '') + (single ?? double?.replace(/\\(.)/gs, '$1') ?? escaped ?? plain ?? '')
  }
  if (word !== undefined) words.push(word)
  return words
}
