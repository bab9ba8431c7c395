/** Quotes a value or the name of a subsection: git-config(1), Syntax. */
export function quoteGitValue(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`
}
