const uses = /\bsecrets(?:\.(\w+)|\['(\w+)'\])/gi

/** The names of the secrets that expressions in a text use, as they are written. */
export function usedSecrets(text: string): string[] {
  return [...text.matchAll(uses)].map(([, name, quoted]) => name ?? quoted ?? '')
}

/**
 * Reduces names of secrets to those that a text names: as a whole word anywhere or, since expressions are not case-sensitive,
 * in any case as `secrets.NAME`.
 */
export function namedSecrets(text: string, names: readonly string[]): string[] {
  const words = new Set(text.match(/\w+/g))
  const used = new Set(usedSecrets(text).map((name) => name.toLowerCase()))
  return names.filter((name) => words.has(name) || used.has(name.toLowerCase()))
}
