const escapes: Record<number, string> = {
  7: 'a',
  8: 'b',
  9: 't',
  10: 'n',
  11: 'v',
  12: 'f',
  13: 'r',
  34: '"',
  92: '\\',
}

/** Quotes a path whose characters are bytes (latin1) as Git does in the headers of patches: core.quotePath. */
export function quotePath(path: string): string {
  // Quoted: control characters, quotes, backslashes, and bytes beyond ASCII.
  if (!/[^\x20\x21\x23-\x5b\x5d-\x7e]/.test(path)) return path
  const quoted = path.replace(/[^\x20\x21\x23-\x5b\x5d-\x7e]/g, (character) => {
    const byte = character.charCodeAt(0)
    return `\\${escapes[byte] ?? byte.toString(8).padStart(3, '0')}`
  })
  return `"${quoted}"`
}
