import { zeroId } from '#git/refs/ref-name.ts'
import { branchPrefix, type RefUpdate } from '#git/refs/refs.ts'

/** What became of a requested update: the reason for which it was refused, or none. */
export type Decision = {
  update: RefUpdate
  refusal: Refusal | undefined
  /** Whether it deletes a ref that is not there. */
  isAbsent: boolean
}

/** Why an update is refused: see `refusalTexts`. */
type Refusal = keyof typeof refusalTexts

/** What a decision depends on, apart from the requested updates. */
export type RefFacts = {
  /** The present values of refs: at least of those that are requested, and of those that conflict with them by name. */
  values: ReadonlyMap<string, string>
  /** Whether an object exists, and is a commit. */
  objects: ReadonlyMap<string, 'commit' | 'other'>
}

/** The texts for clients. The words are those of git's own receive-pack, with the reason that it writes to stderr. */
export const refusalTexts = {
  stale: 'failed to update ref: it has changed meanwhile',
  undeletable: 'failed to delete: the ref has changed meanwhile',
  missing: 'bad pack: the object is missing',
  'no-commit': 'failed to update ref: a branch must point to a commit',
  'name-conflict':
    'failed to update ref: its name is a directory of another ref, or the other way round',
  'one-level': 'funny refname',
  atomic: 'atomic push failure',
}

/**
 * Decides updates as git receive-pack does: one after another, or all or none. These are the checks that git makes when
 * it moves refs, and that it leaves to the `proc-receive` hook where there is one (githooks(5)).
 */
export function decideUpdates(
  updates: RefUpdate[],
  facts: RefFacts,
  isAtomic: boolean,
): Decision[] {
  const values = new Map(facts.values)
  const decisions = updates.map((update): Decision => {
    const refusal =
      isAtomic && conflictsWithOther(update.ref, updates)
        ? 'name-conflict'
        : refusalOf(update, values, facts.objects)
    const isAbsent = update.after === zeroId && !values.has(update.ref)
    if (refusal === undefined) apply(update, values)
    return { update, refusal, isAbsent }
  })
  if (!isAtomic || decisions.every(({ refusal }) => refusal === undefined)) return decisions
  return decisions.map((decision) => ({
    ...decision,
    refusal: decision.refusal ?? ('atomic' as const),
  }))
}

/** The names of refs that a ref excludes because they are its directories. */
export function directoriesOf(ref: string): string[] {
  const parts = ref.split('/')
  return parts.slice(1).map((_, index) => parts.slice(0, index + 1).join('/'))
}

function refusalOf(
  { ref, before, after }: RefUpdate,
  values: ReadonlyMap<string, string>,
  objects: RefFacts['objects'],
): Refusal | undefined {
  // check_refname_format without REFNAME_ALLOW_ONELEVEL, for what follows `refs/`.
  if (ref.split('/').length < 3) return 'one-level'
  const value = values.get(ref) ?? zeroId
  if (after === zeroId) {
    // Git does not compare an old value whose object it does not have.
    if (value !== before && objects.has(before)) return 'undeletable'
    return value === zeroId && hasNameConflict(ref, values) ? 'name-conflict' : undefined
  }
  if (!objects.has(after)) return 'missing'
  if (ref.startsWith(branchPrefix) && objects.get(after) !== 'commit') return 'no-commit'
  if (value !== before) return 'stale'
  return value === zeroId && hasNameConflict(ref, values) ? 'name-conflict' : undefined
}

function apply({ ref, after }: RefUpdate, values: Map<string, string>): void {
  if (after === zeroId) values.delete(ref)
  else values.set(ref, after)
}

function hasNameConflict(ref: string, values: ReadonlyMap<string, string>): boolean {
  if (directoriesOf(ref).some((directory) => values.has(directory))) return true
  for (const name of values.keys()) if (name.startsWith(`${ref}/`)) return true
  return false
}

/** Git refuses a transaction in which the name of one ref is a directory of another, even if one of them is deleted. */
function conflictsWithOther(ref: string, updates: RefUpdate[]): boolean {
  const names = new Set(updates.map((update) => update.ref))
  if (directoriesOf(ref).some((directory) => names.has(directory))) return true
  for (const name of names) if (name.startsWith(`${ref}/`)) return true
  return false
}
