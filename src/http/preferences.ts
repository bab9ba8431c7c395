/**
 * Whether a `Prefer` header (RFC 7240) has a preference. Scans each character once, because a regular expression takes
 * quadratic time for unclosed quotes.
 */
export function hasPreference(header: string, name: string): boolean {
  let isQuoted = false
  let isParameter = false
  let preference = ''
  for (let at = 0; at < header.length; at++) {
    const character = header.charAt(at)
    if (isQuoted) {
      if (character === '\\') at++
      isQuoted = character !== '"'
    } else if (character === ',') {
      if (preference.trim().toLowerCase() === name) return true
      preference = ''
      isParameter = false
    } else if (character === ';') isParameter = true
    else if (character === '"') {
      isQuoted = true
      if (!isParameter) preference += '""'
    } else if (!isParameter) preference += character
  }
  return preference.trim().toLowerCase() === name
}
