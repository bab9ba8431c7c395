import { isRefName, shortNameFault } from '../git/refs/ref-name.ts'

const maxLength = 250

/**
 * The protected branch or pattern that a text names, `refs/heads/` taken off; undefined when it names
 * none. In a pattern `*` stands for any characters, slashes too.
 */
export function toBranchPattern(text: string): string | undefined {
  const pattern = text.replace(/^refs\/heads\//, '')
  const sample = pattern.replaceAll('*', 'x')
  const isWellFormed = pattern.length <= maxLength && isRefName(`refs/heads/${sample}`)
  return isWellFormed && !shortNameFault(pattern) ? pattern : undefined
}

/** The branch that a text names, `refs/heads/` taken off; undefined when it names none. */
export function toBranchName(text: string): string | undefined {
  return text.includes('*') ? undefined : toBranchPattern(text)
}

/** Whether a branch is one that a pattern names. Takes time in proportion to both lengths, whatever they hold. */
export function matchesPattern(branch: string, pattern: string): boolean {
  let at = 0
  let star = -1
  let restart = 0
  let place = 0
  while (at < branch.length) {
    if (pattern[place] === '*') {
      star = place++
      restart = at
    } else if (place < pattern.length && pattern[place] === branch[at]) {
      place++
      at++
    } else if (star !== -1) {
      // Let the last star take one character more.
      place = star + 1
      at = ++restart
    } else {
      return false
    }
  }
  while (pattern[place] === '*') place++
  return place === pattern.length
}
