import { isRefName, shortNameFault } from '../git/refs/ref-name.ts'

const maxLength = 250

/**
 * Parses a branch name or pattern, without `refs/heads/`; undefined when it is not valid. In a pattern, `*` matches
 * any characters, including slashes.
 */
export function toBranchPattern(text: string): string | undefined {
  const pattern = text.replace(/^refs\/heads\//, '')
  const sample = pattern.replaceAll('*', 'x')
  const isWellFormed = pattern.length <= maxLength && isRefName(`refs/heads/${sample}`)
  return isWellFormed && !shortNameFault(pattern) ? pattern : undefined
}

/** Parses a branch name, without `refs/heads/`; undefined when it is not valid. */
export function toBranchName(text: string): string | undefined {
  return text.includes('*') ? undefined : toBranchPattern(text)
}

/** Whether a branch matches a pattern. Takes time proportional to the product of their lengths at most. */
export function matchesPattern(branch: string, pattern: string): boolean {
  let at = 0
  let star = -1
  let restart = 0
  let position = 0
  while (at < branch.length) {
    if (pattern[position] === '*') {
      star = position++
      restart = at
    } else if (position < pattern.length && pattern[position] === branch[at]) {
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
