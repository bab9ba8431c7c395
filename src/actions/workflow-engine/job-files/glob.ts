/** Linux, PATH_MAX. */
const patternMaxLength = 4096
const maxPatterns = 1000

/** A condition for a part of a text, or that any number of parts may follow. */
type Matcher = ((part: string) => boolean) | 'any'

/**
 * Compiles patterns of hashFiles as on GitHub: `*`, `?` and `[…]` within a name, `**` across folders, and a leading
 * `!` to exclude. A matching folder includes everything in it. Paths are relative to the workspace. Matching takes at
 * most time proportional to the product of both lengths, for any pattern. Throws when they are too many or too long.
 */
export function createGlob(
  patterns: readonly string[],
  workspace: string,
): (path: string) => boolean {
  const lines = patterns
    .flatMap((text) => text.split('\n'))
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
  if (lines.length > maxPatterns) throw new Error(`there are more than ${maxPatterns} patterns.`)
  const rules = lines.map((line) => toRule(line, workspace))
  return (path) => {
    const names = path.split('/')
    let isMatched = false
    for (const { isNegated, segments } of rules) {
      if (isNegated === isMatched && matchesAll(segments, names)) isMatched = !isNegated
    }
    return isMatched
  }
}

function toRule(line: string, workspace: string): { isNegated: boolean; segments: Matcher[] } {
  if (line.length > patternMaxLength) {
    throw new Error(`a pattern is longer than ${patternMaxLength} characters.`)
  }
  const isNegated = line.startsWith('!')
  const text = isNegated ? line.slice(1).trim() : line
  const inside = text.startsWith(`${workspace}/`) ? text.slice(workspace.length + 1) : text
  // An absolute path outside the workspace matches nothing.
  if (inside.startsWith('/')) return { isNegated, segments: [() => false] }
  const segments = inside.split('/').filter((segment) => segment !== '' && segment !== '.')
  return { isNegated, segments: [...segments.map(toSegment), 'any'] }
}

function toSegment(segment: string): Matcher {
  if (segment === '**') return 'any'
  if (!/[*?[]/.test(segment)) return (name) => name === segment
  const parts = segment.match(/\[[!^]?\]?[^\]]*\]|./gsu) ?? []
  const matchers = parts.map(toCharacter)
  return (name) => matchesAll(matchers, [...name])
}

function toCharacter(part: string): Matcher {
  if (part === '*') return 'any'
  if (part === '?') return () => true
  if (part.length < 2 || !part.startsWith('[')) return (character) => character === part
  const isNegated = /^\[[!^]/.test(part)
  const members = [...part.slice(isNegated ? 2 : 1, -1)]
  const ranges: { from: string; to: string }[] = []
  for (let at = 0; at < members.length; at++) {
    const [from = '', dash, to] = members.slice(at, at + 3)
    if (dash === '-' && to !== undefined) {
      ranges.push({ from, to })
      at += 2
    } else ranges.push({ from, to: from })
  }
  return (character) =>
    ranges.some(({ from, to }) => from <= character && character <= to) !== isNegated
}

// Backtracks only to the last `any`: an earlier one could match no more than that.
function matchesAll(matchers: readonly Matcher[], parts: readonly string[]): boolean {
  let [at, index] = [0, 0]
  let any = -1
  let anyIndex = 0
  while (index < parts.length) {
    const matcher = matchers[at]
    if (matcher === 'any') {
      any = at++
      anyIndex = index
    } else if (matcher?.(parts[index] ?? '')) {
      at++
      index++
    } else if (any >= 0) {
      at = any + 1
      index = ++anyIndex
    } else return false
  }
  while (matchers[at] === 'any') at++
  return at === matchers.length
}
