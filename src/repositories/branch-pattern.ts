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
