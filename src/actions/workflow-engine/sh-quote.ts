/** Quotes a word for sh; unlike `shellWord`, without escapes that not every sh has. */
export function shQuote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`
}
