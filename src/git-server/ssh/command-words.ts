const piece = /'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^\s'"\\]+)/gsy
const space = /\s+/gy

/**
 * The words of a command line, quoted as Git quotes them for a shell (quote.c, sq_quote_buf) and as
 * people do by hand. Nothing is ever expanded. Undefined for quotes that do not end.
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
