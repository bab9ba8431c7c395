/** Quotes a text, where needed, as one word of a shell command line that people can paste (POSIX, 2.2). */
export function shellWord(text: string): string {
  if (/^[\w@%+=:,./-]+$/.test(text)) return text
  if (!/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(text)) return shQuote(text)
  // Control and invisible characters are written as bytes: POSIX.1-2024, dollar-single-quotes.
  return `$'${[...Buffer.from(text)].map(toByte).join('')}'`
}

/** Quotes a word for sh; unlike `shellWord`, without escapes that not every sh has. */
export function shQuote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`
}

function toByte(byte: number): string {
  const character = String.fromCharCode(byte)
  const isPlain = /[ -~]/.test(character) && !/['\\]/.test(character)
  return isPlain ? character : `\\${byte.toString(8).padStart(3, '0')}`
}
