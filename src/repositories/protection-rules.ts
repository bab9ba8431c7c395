import { matchesPattern } from '#base/text-pattern.ts'
import type { ProtectionRow } from '#database/schema.ts'
import {
  type Requirement,
  type RequirementValue,
  toRequirement,
  toRequirementValue,
} from './requirements.ts'

/** What a protection is about. */
export type ProtectedKind = 'branch' | 'tag'

/** What owners may do to a protected ref: everything, nothing that loses commits, or nothing at all. */
export const ownerRules = ['any', 'fast-forward', 'none'] as const

type OwnerRule = (typeof ownerRules)[number]

/** What a protection says. The columns, the API and the events have these under the same names. */
export type ProtectionRules = {
  owners: OwnerRule
  /** What the pushed commit must have. */
  requires: Requirement[]
  /** How many users must have approved a change before it lands; with 0, and without code owners, pushes need no change. */
  approvals: number
  /** Whether a change needs the approval of an owner of each path that it touches, by CODEOWNERS. */
  codeOwners: boolean
  /** Whether changes land through the queue of the branch, which tries them before the branch moves. */
  queue: boolean
}

/** Rules that a request gives; it leaves the others as they are. */
export type WantedRules = { [Rule in keyof ProtectionRules]?: ProtectionRules[Rule] | undefined }

/** The rules of a new protection, unless others are given. */
export const firstRules: ProtectionRules = {
  owners: 'any',
  requires: [],
  approvals: 0,
  codeOwners: false,
  queue: false,
}

export function changeRules(rules: ProtectionRules, wanted: WantedRules): ProtectionRules {
  return {
    owners: wanted.owners ?? rules.owners,
    requires: wanted.requires ?? rules.requires,
    approvals: wanted.approvals ?? rules.approvals,
    codeOwners: wanted.codeOwners ?? rules.codeOwners,
    queue: wanted.queue ?? rules.queue,
  }
}

type RuleColumns = Omit<ProtectionRow, 'scopeId' | 'branch' | 'createdAt'>

export function toRuleColumns(rules: ProtectionRules): RuleColumns {
  const { requires, codeOwners, queue, ...others } = toRuleValues(rules)
  const flags = { codeOwners: Number(codeOwners), queue: Number(queue) }
  return { ...others, ...flags, requires: JSON.stringify(requires) }
}

function toRules({ owners, requires, approvals, codeOwners, queue }: RuleColumns): ProtectionRules {
  // Only `toRuleColumns` writes it.
  const values: RequirementValue[] = JSON.parse(requires)
  return {
    owners,
    requires: values.map(toRequirement),
    approvals,
    codeOwners: codeOwners !== 0,
    queue: queue !== 0,
  }
}

/** The rules in the API and in events. */
export function toRuleValues({ requires, ...others }: ProtectionRules) {
  const { owners, approvals, codeOwners, queue } = others
  return { owners, requires: requires.map(toRequirementValue), approvals, codeOwners, queue }
}

/** A protection of the branches or tags that match a pattern. */
export type Protection = ProtectionRules & {
  kind: ProtectedKind
  /** A name or a pattern, without `refs/heads/` or `refs/tags/`. */
  pattern: string
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
  namespace = null,
  ...row
}: ProtectionRow & { namespace?: string | null }): Protection {
  const isTag = branch.startsWith(prefixes.tag)
  return {
    kind: isTag ? 'tag' : 'branch',
    pattern: isTag ? branch.slice(prefixes.tag.length) : branch,
    ...toRules(row),
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
