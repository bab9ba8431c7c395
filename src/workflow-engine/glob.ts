/**
 * Compiles patterns of hashFiles as on GitHub: `*`, `?` and `[…]` within a name, `**` across folders, and a leading
 * `!` to exclude. A matching folder includes everything in it. Paths are relative to the workspace. Matching takes at
 * most time proportional to the product of both lengths, for any pattern.
 */
export function createGlob(
  patterns: readonly string[],
  workspace: string,
): (path: string) => boolean {
  const rules = patterns
    .flatMap((text) => text.split('\n'))
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => toRule(line, workspace))
  return (path) => {
    const names = path.split('/')
    let isMatched = false
    for (const { negated, segments } of rules) {
      if (negated === isMatched && matchesPath(segments, names)) isMatched = !negated
    }
    return isMatched
  }
}

function toRule(line: string, workspace: string) {
  const negated = line.startsWith('!')
  const text = negated ? line.slice(1).trim() : line
  const inside = text.startsWith(`${workspace}/`) ? text.slice(workspace.length + 1) : text
  const segments = inside.split('/').filter((segment) => segment !== '' && segment !== '.')
  // An absolute path outside the workspace matches nothing.
  const isElsewhere = inside.startsWith('/')
  return { negated, segments: isElsewhere ? ['\0'] : [...segments, '**'] }
}

// Both backtrack only to the last star: an earlier one could match no more than that.
function matchesPath(segments: string[], names: string[]): boolean {
  return matchesWithStars(
    segments.length,
    names.length,
    (at) => segments[at] === '**',
    (at, index) => matchesName(segments[at] ?? '', names[index] ?? ''),
  )
}

function matchesName(pattern: string, name: string): boolean {
  const parts = pattern.match(/\[!?\]?[^\]]*\]|./gsu) ?? []
  const characters = [...name]
  return matchesWithStars(
    parts.length,
    characters.length,
    (at) => parts[at] === '*',
    (at, index) => matchesCharacter(parts[at] ?? '', characters[index] ?? ''),
  )
}

function matchesWithStars(
  patternLength: number,
  length: number,
  isStar: (at: number) => boolean,
  matches: (at: number, index: number) => boolean,
): boolean {
  let [at, index] = [0, 0]
  let star = -1
  let starIndex = 0
  while (index < length) {
    if (at < patternLength && isStar(at)) {
      star = at++
      starIndex = index
    } else if (at < patternLength && matches(at, index)) {
      at++
      index++
    } else if (star >= 0) {
      at = star + 1
      index = ++starIndex
    } else return false
  }
  while (at < patternLength && isStar(at)) at++
  return at === patternLength
}

function matchesCharacter(part: string, character: string): boolean {
  if (part === '?') return true
  if (part.length < 2 || !part.startsWith('[')) return part === character
  const negated = part.startsWith('[!')
  const members = [...part.slice(negated ? 2 : 1, -1)]
  let isMember = false
  for (let at = 0; at < members.length; at++) {
    const [from = '', dash, to] = members.slice(at, at + 3)
    if (dash === '-' && to !== undefined) {
      isMember ||= from <= character && character <= to
      at += 2
    } else isMember ||= from === character
  }
  return isMember !== negated
}
