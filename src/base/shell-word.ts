/** A text as one word of a shell's command line, to be pasted: in quotes where it needs them (POSIX, 2.2). */
export function shellWord(text: string): string {
  if (/^[\w@%+=:,./-]+$/.test(text)) return text
  if (!/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(text)) return `'${text.replaceAll("'", `'\\''`)}'`
  // What a terminal would act on or not show is written as bytes: POSIX.1-2024, dollar-single-quotes.
  return `$'${[...Buffer.from(text)].map(toByte).join('')}'`
}

function toByte(byte: number): string {
  const character = String.fromCharCode(byte)
  const isPlain = /[ -~]/.test(character) && !/['\\]/.test(character)
  return isPlain ? character : `\\${byte.toString(8).padStart(3, '0')}`
}
