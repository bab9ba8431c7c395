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
  const refs = createRefTree(facts.values)
  // Git refuses a transaction with such names even if one of the refs is deleted.
  const requested = createRefTree(isAtomic ? updates.map(({ ref, after }) => [ref, after]) : [])
  const decisions = updates.map((update): Decision => {
    const refusal = requested.hasConflict(update.ref)
      ? 'name-conflict'
      : refusalOf(update, refs, facts.objects)
    const isAbsent = update.after === zeroId && refs.get(update.ref) === undefined
    if (refusal === undefined) refs.apply(update)
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
  const directories: string[] = []
  for (let end = ref.indexOf('/'); end !== -1; end = ref.indexOf('/', end + 1))
    directories.push(ref.slice(0, end))
  return directories
}

type RefTree = ReturnType<typeof createRefTree>

/** Refs with the number of those below each directory, so that looking for conflicts does not search all names. */
function createRefTree(refs: Iterable<readonly [string, string]>) {
  const values = new Map<string, string>()
  const sizes = new Map<string, number>()

  function resize(ref: string, change: number): void {
    for (const directory of directoriesOf(ref))
      sizes.set(directory, (sizes.get(directory) ?? 0) + change)
  }

  function set(ref: string, value: string): void {
    if (!values.has(ref)) resize(ref, 1)
    values.set(ref, value)
  }

  for (const [ref, value] of refs) set(ref, value)

  return {
    get: (ref: string) => values.get(ref),

    apply({ ref, after }: RefUpdate): void {
      if (after !== zeroId) set(ref, after)
      else if (values.delete(ref)) resize(ref, -1)
    },

    /** Whether the name of another ref is a directory of this one, or the other way round. */
    hasConflict: (ref: string) =>
      (sizes.get(ref) ?? 0) > 0 || directoriesOf(ref).some((directory) => values.has(directory)),
  }
}

function refusalOf(
  { ref, before, after }: RefUpdate,
  refs: RefTree,
  objects: RefFacts['objects'],
): Refusal | undefined {
  const value = refs.get(ref) ?? zeroId
  if (after === zeroId) {
    // Git does not compare an old value whose object it does not have.
    if (value !== before && objects.has(before)) return 'undeletable'
    return value === zeroId && refs.hasConflict(ref) ? 'name-conflict' : undefined
  }
  // check_refname_format without REFNAME_ALLOW_ONELEVEL, for what follows `refs/`; git from 2.41 on deletes such a ref.
  if (ref.split('/').length < 3) return 'one-level'
  if (!objects.has(after)) return 'missing'
  if (ref.startsWith(branchPrefix) && objects.get(after) !== 'commit') return 'no-commit'
  if (value !== before) return 'stale'
  return value === zeroId && refs.hasConflict(ref) ? 'name-conflict' : undefined
}
