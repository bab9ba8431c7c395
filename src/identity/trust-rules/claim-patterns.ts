import { matchesPattern } from '#base/text-pattern.ts'

/** Patterns of claims by their names; `*` matches any characters. */
export type ClaimPatterns = Readonly<Record<string, string>>

/** The claims by which issuers name a workload, in which order they are best used. */
export const identifyingClaims = [
  'sub',
  'repository_id',
  'repository',
  'project_id',
  'project_path',
  'namespace_id',
  'namespace_path',
  'repository_owner_id',
  'repository_owner',
]

/** The beginnings of subjects that all workloads of a public issuer have. */
const commonPrefixes = /^(?:repo|project_path):/

/** Claims that are a single name or id, of which a beginning says nothing. */
const wholeClaims =
  /^(?:repository_id|project_id|namespace_id|repository_owner|repository_owner_id)$/

/**
 * Whether patterns name workloads: by a claim that identifies one, which is given in full, or with an owner before the first
 * `*`. Otherwise a rule for a public issuer would admit the jobs of strangers.
 */
export function areIdentifying(patterns: ClaimPatterns): boolean {
  return identifyingClaims.some((name) => {
    const pattern = patterns[name]?.replace(commonPrefixes, '')
    if (pattern === undefined || pattern === '') return false
    const [start = '', ...rest] = pattern.split('*')
    return rest.length === 0 || (!wholeClaims.test(name) && /[^/:][/:]/.test(start))
  })
}

/** The first claim that does not match its pattern, as a sentence; undefined if all match. */
export function claimMismatch(
  claims: Readonly<Record<string, unknown>>,
  patterns: ClaimPatterns,
): string | undefined {
  for (const [name, pattern] of Object.entries(patterns)) {
    const text = Object.hasOwn(claims, name) ? toText(claims[name]) : undefined
    if (text === undefined) return `The token has no claim ${quoted(name)}.`
    if (!matchesPattern(text, pattern))
      return `The claim ${quoted(name)} is ${quoted(text)}, and not ${quoted(pattern)}.`
  }
  return undefined
}

const maxShown = 300

function quoted(text: string): string {
  return JSON.stringify(text.slice(0, maxShown))
}

/** Lists and objects have no text. */
function toText(claim: unknown): string | undefined {
  return ['string', 'number', 'boolean'].includes(typeof claim) ? String(claim) : undefined
}
