const maxLength = 40

/** Suggests the word that was probably meant by a mistyped one. */
export function suggest(word: string, words: readonly string[]): string | undefined {
  if (word.length > maxLength) return undefined
  const typed = plain(word)
  const allowed = Math.min(2, Math.floor(typed.length / 2))
  let best: string | undefined
  let bestDistance = allowed + 1
  for (const candidate of words) {
    const distance = distanceOf(typed, plain(candidate))
    if (distance >= bestDistance) continue
    best = candidate
    bestDistance = distance
  }
  return best
}

// `timeoutMinutes` and `timeout_minutes` are `timeout-minutes`.
function plain(word: string): string {
  return word.toLowerCase().replace(/[-_ ]/g, '')
}

/** The Levenshtein distance. */
function distanceOf(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index)
  for (const [line, character] of [...one].entries()) {
    const next = [line + 1]
    for (let column = 0; column < other.length; column++) {
      const change = (row[column] ?? 0) + (character === other[column] ? 0 : 1)
      next.push(Math.min(change, (row[column + 1] ?? 0) + 1, (next[column] ?? 0) + 1))
    }
    row = next
  }
  return row[other.length] ?? 0
}
