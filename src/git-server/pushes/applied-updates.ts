import type { Db, PushRow } from '#database/schema.ts'
import { findObjects } from '#git/objects/object-stream.ts'
import type { Git } from '#git/process/git-process.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { type RefUpdate, readRefs, resolveSymbolicRefs } from '#git/refs/refs.ts'
import { listSince } from './push-store.ts'

/** A requested ref update, as recorded in the intent of a push. */
export type IntendedUpdate = RefUpdate & {
  /** The ref did not have the value `before` when the push was authorized. */
  isStale?: true
  /** A deletion of a ref that did not exist when the push was authorized. */
  isAbsent?: true
  /** Whether git checks the old value of such a deletion, since it has that object. */
  isChecked?: true
}

/** The intent of a push that requests some updates, given the present values of their refs. */
export async function toIntended(
  git: Git,
  directory: string,
  updates: RefUpdate[],
): Promise<IntendedUpdate[]> {
  const names = updates.map(({ ref }) => ref)
  const values = await readRefs(directory, names)
  const isStale = ({ ref, before }: RefUpdate) => values.get(ref) !== before
  const claimed = updates
    .filter((update) => update.after === zeroId && isStale(update))
    .map(({ before }) => before)
    .filter((before) => before !== zeroId)
  const found = claimed.length > 0 ? await findObjects(git, directory, claimed) : new Map()
  return updates.map((update): IntendedUpdate => {
    const { ref, before, after } = update
    const value = values.get(ref) ?? zeroId
    // Git only warns about it and updates the other refs.
    if (after === zeroId && value === zeroId)
      return { ...update, isAbsent: true, ...(found.has(before) && { isChecked: true }) }
    if (!isStale(update)) return update
    // Git ignores the old value of a deletion when it does not have that object.
    if (after === zeroId && !found.has(before)) return { ref, before: value, after }
    return { ...update, isStale: true }
  })
}

/**
 * The intended updates that were applied, for a push whose git has ended. Where git has said which it refused, all others
 * were. Otherwise, as after a crash, values decide: the ref has the new value, or another push has since replaced it. When
 * two pushes requested the same update, git applied one of them; it is attributed to the one finalized first, unless the
 * ref may have returned to its old value in between.
 */
export async function findApplied(
  db: Db,
  directory: string,
  push: PushRow,
  refused?: readonly string[],
): Promise<RefUpdate[]> {
  const intended = intendedOf(push).filter(({ ref }) => !refused?.includes(ref))
  // Git accepts a deletion of what is not there, unless it checks the old value.
  const isCertain = ({ isAbsent, isChecked }: IntendedUpdate) =>
    refused !== undefined && (!isAbsent || isChecked)
  if (intended.every(isCertain)) return intended.map(toUpdate)
  const values = await readRefs(
    directory,
    intended.map(({ ref }) => ref),
  )
  const others = (await listSince(db, push)).flatMap((other) =>
    intendedOf(other).map((update) => ({ ...update, isRecorded: other.finishedAt !== null })),
  )
  // Symbolic refs give a ref several names.
  const names = others.length > 0 ? [...intended, ...others].map(({ ref }) => ref) : []
  const targets = await resolveSymbolicRefs(directory, names)
  const byTarget = Map.groupBy(others, ({ ref }) => targets.get(ref))
  return intended
    .flatMap((update): IntendedUpdate[] => {
      if (!update.isAbsent) return [update]
      // Git deletes the present value; there is one only if another push has created the ref meanwhile.
      const made = byTarget.get(targets.get(update.ref))?.findLast(({ after }) => after !== zeroId)
      return made ? [{ ...update, before: made.after }] : []
    })
    .filter((update) => {
      if (isCertain(update)) return true
      const touching = byTarget.get(targets.get(update.ref)) ?? []
      const isReached = ({ ref, after }: RefUpdate) =>
        values.get(ref) === after || touching.some(({ before }) => before === after)
      if (!isReached(update)) return false
      if (!update.isAbsent && touching.some((other) => leadsTo(other, update))) return true
      // Git checks the old value, except in a deletion when it does not have that object.
      if (update.isStale && update.after !== zeroId) return false
      return !touching.some((other) => other.isRecorded && isSame(other, update))
    })
    .map(toUpdate)
}

function toUpdate({ ref, before, after }: RefUpdate): RefUpdate {
  return { ref, before, after }
}

/** The updates in a push's recorded intent. */
export function intendedOf({ updates }: Pick<PushRow, 'updates'>): IntendedUpdate[] {
  const intended: IntendedUpdate[] = JSON.parse(updates)
  return intended.filter(({ before, after, isAbsent }) => before !== after || isAbsent)
}

// Whether git may have applied the update because of the other one.
function leadsTo(other: RefUpdate, update: RefUpdate): boolean {
  return update.after === zeroId ? other.after !== zeroId : other.after === update.before
}

function isSame(one: RefUpdate, other: RefUpdate): boolean {
  return one.before === other.before && one.after === other.after
}
