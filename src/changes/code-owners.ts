/** A rule of a CODEOWNERS file: the owners of the paths that match it. */
type OwnerRule = { matches: (path: string) => boolean; owners: string[] }

export type CodeOwners = {
  /** The owners of a path: usernames, and groups as `group:NAME`; empty for a path without owners. */
  ownersOf: (path: string) => readonly string[]
}

/** Where the file may be, in the order in which it is looked for. */
export const codeOwnersFiles = [
  'CODEOWNERS',
  '.svc/CODEOWNERS',
  '.github/CODEOWNERS',
  'docs/CODEOWNERS',
]

const maxRules = 5000

/**
 * Parses a CODEOWNERS file as GitHub documents it: a pattern as of `.gitignore`, without `!` and `[ ]`, and owners. The last
 * rule that matches a path counts. `@name` is a user, `@group:NAME` a group of the login; what is neither, such as an email
 * address, is an owner who cannot approve. Undefined for a file with too many rules.
 */
export function parseCodeOwners(text: string): CodeOwners | undefined {
  const rules: OwnerRule[] = []
  for (const line of text.split('\n')) {
    const [pattern = '', ...words] = wordsOf(line)
    if (pattern === '') continue
    if (rules.length === maxRules) return undefined
    rules.push({ matches: toMatcher(pattern), owners: words.map((word) => word.replace(/^@/, '')) })
  }
  return { ownersOf: (path) => rules.findLast(({ matches }) => matches(path))?.owners ?? [] }
}

/** The words of a line up to a comment; a backslash makes the next character part of a word. */
function wordsOf(line: string): string[] {
  const words: string[] = []
  let word = ''
  for (let at = 0; at < line.length; at++) {
    const character = line[at] ?? ''
    if (character === '#') break
    if (/\s/.test(character)) {
      if (word !== '') words.push(word)
      word = ''
    } else {
      if (character === '\\') at += 1
      word += line[at] ?? ''
    }
  }
  return word === '' ? words : [...words, word]
}

/** Matches paths with a pattern: `*` within a name, `**` across folders, a folder with all that is in it. */
function toMatcher(pattern: string): (path: string) => boolean {
  const isAnchored = pattern.slice(0, -1).includes('/')
  const parts = pattern.replace(/^\//, '').replace(/\/$/, '').split('/')
  const isFolder = pattern.endsWith('/')
  return (path) => {
    const names = path.split('/')
    const starts = isAnchored ? [0] : names.map((_, index) => index)
    return starts.some((start) => matchesFrom(parts, names.slice(start), isFolder))
  }
}

/**
 * Whether the first of some names match the parts of a pattern. The names after them are in the folder that it names; a pattern
 * that ends in `*` names only what is directly there.
 */
function matchesFrom(
  parts: readonly string[],
  names: readonly string[],
  isFolder: boolean,
): boolean {
  // The numbers of names that the parts up to now may have matched.
  let reached = new Set([0])
  for (const part of parts) {
    const next = new Set<number>()
    for (const at of reached) {
      if (part === '**') for (let to = at; to <= names.length; to++) next.add(to)
      else if (matchesName(part, names[at])) next.add(at + 1)
    }
    reached = next
  }
  const isWhole = reached.has(names.length)
  if (isFolder) return [...reached].some((at) => at < names.length)
  return isWhole || (parts.at(-1) !== '*' && reached.size > 0)
}

/** Whether a name matches a pattern with `*` and `?`, in linear time for each `*`. */
function matchesName(pattern: string, name: string | undefined): boolean {
  if (name === undefined) return false
  let [at, from, star, retry] = [0, 0, -1, 0]
  while (from < name.length) {
    const wanted = pattern[at]
    if (wanted === '*') [star, retry, at] = [at, from, at + 1]
    else if (wanted === '?' || (wanted !== undefined && wanted === name[from])) {
      at += 1
      from += 1
    } else if (star === -1) return false
    else {
      retry += 1
      ;[at, from] = [star + 1, retry]
    }
  }
  while (pattern[at] === '*') at += 1
  return at === pattern.length
}
