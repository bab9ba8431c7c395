import type { Principal } from '#access/principal.ts'
import { dayMs } from '#base/clock.ts'
import { Problem } from '#base/problem.ts'
import { coversPattern } from '#base/text-pattern.ts'
import { isRefName } from '#git/refs/ref-name.ts'
import { invalid } from '#http/validation.ts'
import type { NewToken, TokenLimits } from './token-rows.ts'

export const maxLimitedRepositories = 100
export const maxRefPatterns = 50
export const refPatternMaxLength = 250
const defaultExpiryDays = 365

/** Checks the patterns of refs of a new token, and drops duplicates. Throws `invalid_request`. */
export function toRefPatterns(texts: readonly string[]): string[] {
  for (const [index, text] of texts.entries()) {
    const isPattern = text.startsWith('refs/') && isRefName(text.replaceAll('*', 'x'))
    if (isPattern && text.length <= refPatternMaxLength) continue
    const detail = `must be the full name of a ref or a pattern with "*", such as "refs/heads/agents/*", of at most ${refPatternMaxLength} characters.`
    throw invalid([{ pointer: `/refs/${index}`, detail }])
  }
  return [...new Set(texts)]
}

/** The requested expiry of a new token: null for never, undefined when the request has none. */
export function requestedExpiry(
  {
    expiresInDays: days,
    expiresInSeconds: seconds,
  }: Pick<NewToken, 'expiresInDays' | 'expiresInSeconds'>,
  now: number,
): number | null | undefined {
  if (seconds !== undefined && days !== undefined) {
    const detail = 'must not be given together with expiresInDays.'
    throw invalid([{ pointer: '/expiresInSeconds', detail }])
  }
  if (seconds !== undefined) return now + seconds * 1000
  if (days === undefined || days === null) return days
  return now + days * dayMs
}

export function defaultExpiry(now: number): number {
  return now + defaultExpiryDays * dayMs
}

/** Throws `invalid_request` for permissions that exceed the limits of a token. */
export function requirePermissionsWithin(
  permissions: readonly string[],
  { repositories, refs }: TokenLimits,
): void {
  const excluded = {
    repositories: repositories ? ['admin', 'runner', 'metrics:read'] : [],
    // With these it could change other refs: by deleting all, or through another user.
    refs: refs ? ['admin', 'repo:delete', 'collaborator:write'] : [],
  }
  const [first] = Object.entries(excluded).flatMap(([limit, names]) =>
    permissions
      .filter((permission) => names.includes(permission))
      .map((permission) => ({ limit, permission })),
  )
  if (!first) return
  const detail = `${first.permission} cannot be limited to ${first.limit}.`
  throw invalid([{ pointer: '/permissions', detail }])
}

/** The refs of a delegated token: as requested, or else those of the delegating token. Throws `token_limited`. */
export function delegatedRefs({ refs }: Principal, requested: string[] | null): string[] | null {
  if (requested === null || refs === undefined) return requested ?? refs?.slice() ?? null
  const outside = requested.find((narrow) => !refs.some((wide) => coversPattern(wide, narrow)))
  if (outside === undefined) return requested
  const detail = `"${outside}" is beyond the refs of this token, which are ${refs.join(', ')}.`
  throw new Problem('token_limited', detail)
}

/**
 * The expiry of a token that ends with another one: as requested, or else that of the other one, at most a year from now. Throws
 * `token_limited`.
 */
export function delegatedExpiry(
  { expiresAt: end = null }: Principal,
  requested: number | null | undefined,
  now: number,
): number | null {
  if (requested === undefined) return Math.min(end ?? defaultExpiry(now), defaultExpiry(now))
  if (end === null || (requested !== null && requested <= end)) return requested
  const detail = `This token ends at ${new Date(end).toISOString()}; a token that ends with it cannot last longer.`
  throw new Problem('token_limited', detail)
}
