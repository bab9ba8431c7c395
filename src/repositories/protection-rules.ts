import { matchesPattern } from '#base/text-pattern.ts'
import type { ProtectionRow } from '#database/schema.ts'

/** What a protection is about. */
export type ProtectedKind = 'branch' | 'tag'

/** What owners may do to a protected ref: everything, nothing that loses commits, or nothing at all. */
export const ownerRules = ['any', 'fast-forward', 'none'] as const

export type OwnerRule = (typeof ownerRules)[number]

/** A protection of the branches or tags that match a pattern. */
export type Protection = {
  kind: ProtectedKind
  /** A name or a pattern, without `refs/heads/` or `refs/tags/`. */
  pattern: string
  owners: OwnerRule
  /** Paths of workflow files, of which the pushed commit must have a successful run. */
  requires: string[]
  /** The namespace that has it for all of its repositories; null for one of a repository. */
  namespace: string | null
}

const prefixes = { branch: 'refs/heads/', tag: 'refs/tags/' } as const

/** Splits a full ref name into its kind and short name; undefined for a ref that is neither branch nor tag. */
export function shortNameOf(ref: string): { kind: ProtectedKind; name: string } | undefined {
  for (const kind of ['branch', 'tag'] as const) {
    if (ref.startsWith(prefixes[kind])) return { kind, name: ref.slice(prefixes[kind].length) }
  }
  return undefined
}

/** The text of a pattern in the database: that of a branch is its name, that of a tag a full ref. */
export function toStoredPattern({ kind, pattern }: Pick<Protection, 'kind' | 'pattern'>): string {
  return kind === 'branch' ? pattern : prefixes.tag + pattern
}

export function toProtection({
  branch,
  owners,
  requires,
  namespace = null,
}: ProtectionRow & { namespace?: string | null }): Protection {
  const isTag = branch.startsWith(prefixes.tag)
  return {
    kind: isTag ? 'tag' : 'branch',
    pattern: isTag ? branch.slice(prefixes.tag.length) : branch,
    owners,
    // Only `Protections` writes it.
    requires: JSON.parse(requires),
    namespace,
  }
}

/** The branches and patterns of branches among protections. */
export function protectedBranchesIn(rows: readonly ProtectionRow[]): string[] {
  return rows.map(toProtection).flatMap(({ kind, pattern }) => (kind === 'branch' ? [pattern] : []))
}

/** The protections that a ref, given by its full name, is subject to. */
export function protectionsOf(ref: string, all: readonly Protection[]): Protection[] {
  const short = shortNameOf(ref)
  if (!short) return []
  return all.filter(
    ({ kind, pattern }) => kind === short.kind && matchesPattern(short.name, pattern),
  )
}
