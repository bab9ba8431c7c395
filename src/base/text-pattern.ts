/**
 * Whether a text matches a pattern, in which `*` matches any characters. Takes time proportional to the product of their
 * lengths at most.
 */
export function matchesPattern(text: string, pattern: string): boolean {
  let at = 0
  let star = -1
  let restart = 0
  let position = 0
  while (at < text.length) {
    if (pattern[position] === '*') {
      star = position++
      restart = at
    } else if (position < pattern.length && pattern[position] === text[at]) {
      position++
      at++
    } else if (star !== -1) {
      // Backtrack: the last star matches one more character.
      position = star + 1
      at = ++restart
    } else {
      return false
    }
  }
  while (pattern[position] === '*') position++
  return position === pattern.length
}

/** Whether every text that matches `narrow` matches `wide`, too: a `*` of `narrow` must be matched by one of `wide`. */
export function coversPattern(wide: string, narrow: string): boolean {
  return matchesPattern(narrow, wide)
}
