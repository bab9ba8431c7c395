import { isRefName, shortNameFault } from '#git/refs/ref-name.ts'

/** The maximum length of a name or pattern. */
export const branchNameMaxLength = 250

/** Parses a branch name or pattern, without `refs/heads/`; undefined when it is not valid. */
export function toBranchPattern(text: string): string | undefined {
  return toPattern(text, 'refs/heads/')
}

/** Parses a tag name or pattern, without `refs/tags/`; undefined when it is not valid. */
export function toTagPattern(text: string): string | undefined {
  return toPattern(text, 'refs/tags/')
}

/** Parses a branch name, without `refs/heads/`; undefined when it is not valid. */
export function toBranchName(text: string): string | undefined {
  return text.includes('*') ? undefined : toBranchPattern(text)
}

/** In a pattern, `*` matches any characters, including slashes. */
function toPattern(text: string, prefix: string): string | undefined {
  const pattern = text.startsWith(prefix) ? text.slice(prefix.length) : text
  const sample = pattern.replaceAll('*', 'x')
  const isWellFormed = pattern.length <= branchNameMaxLength && isRefName(prefix + sample)
  return isWellFormed && !shortNameFault(pattern) ? pattern : undefined
}
