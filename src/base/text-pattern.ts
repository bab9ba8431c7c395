import { findText } from './find-text.ts'

/** Whether a text matches a pattern, in which `*` matches any characters. Takes time linear in their lengths. */
export function matchesPattern(text: string, pattern: string): boolean {
  const parts = pattern.split('*')
  const [first = '', ...others] = parts
  const last = others.pop()
  if (last === undefined) return text === pattern
  if (text.length < first.length + last.length || !text.startsWith(first)) return false
  // The first place for each part leaves the most for those behind it.
  let at = first.length
  for (const part of others) {
    const found = findText(text, part, at)
    if (found === -1) return false
    at = found + part.length
  }
  return at + last.length <= text.length && text.endsWith(last)
}

/** Whether every text that matches `narrow` matches `wide`, too: a `*` of `narrow` must be matched by one of `wide`. */
export function coversPattern(wide: string, narrow: string): boolean {
  return matchesPattern(narrow, wide)
}
