type Options = {
  mask: (text: string) => string
  /** Characters of the result, with the ellipsis. */
  maxLength: number
}

/**
 * Masks a text, then shortens it. Texts of runs must be shortened only here: a secret that is cut before it is masked
 * is not recognized, and its start would be shown.
 */
export function maskAndShorten(text: string, { mask, maxLength }: Options): string {
  const masked = mask(text)
  if (masked.length <= maxLength) return masked
  // Not between the halves of a surrogate pair.
  return `${masked.slice(0, maxLength - 1).replace(/[\ud800-\udbff]$/, '')}…`
}
