type Options = {
  mask: (text: string) => string
  /** Characters of the result, with the ellipsis. */
  maxLength: number
}

/**
 * Masks a text, then shortens it. What a run says is shortened here only: a secret that is cut before it is masked is
 * no longer found, and its beginning shows.
 */
export function maskAndShorten(text: string, { mask, maxLength }: Options): string {
  const masked = mask(text)
  if (masked.length <= maxLength) return masked
  // Half of a surrogate pair is no character.
  return `${masked.slice(0, maxLength - 1).replace(/[\ud800-\udbff]$/, '')}…`
}
