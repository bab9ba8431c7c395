import type { Db, PushRow } from '../../database/schema.ts'
import { zeroId } from '../../git/refs/ref-name.ts'
import { type RefUpdate, readRefs, resolveSymbolicRefs } from '../../git/refs/refs.ts'
import { listSince } from './push-store.ts'

/** What a push wants to do to a ref, as its intent is recorded. */
export type IntendedUpdate = RefUpdate & {
  /** The ref was something else than `before` when the push was judged. */
  isStale?: true
  /** A deletion of what was not there when the push was judged. */
  isAbsent?: true
}

/**
 * Which of a push's intended updates came to pass, of a push whose git has ended: the ref has the new value, or another
 * push has since replaced just that value. Two pushes may have wanted the same, and git let one of them do it: it
 * counts for the one that is asked about first, unless the ref may have come back to what it was in between.
 */
export async function findApplied(db: Db, directory: string, push: PushRow): Promise<RefUpdate[]> {
  const intended = intendedOf(push)
  const values = await readRefs(
    directory,
    intended.map(({ ref }) => ref),
  )
  const others = (await listSince(db, push)).flatMap((other) =>
    intendedOf(other).map((update) => ({ ...update, isRecorded: other.finishedAt !== null })),
  )
  // A ref has several names where some are symbolic.
  const names = others.length > 0 ? [...intended, ...others].map(({ ref }) => ref) : []
  const targets = await resolveSymbolicRefs(directory, names)
  const byTarget = Map.groupBy(others, ({ ref }) => targets.get(ref))
  return intended
    .flatMap((update): IntendedUpdate[] => {
      if (!update.isAbsent) return [update]
      // Git deletes what it finds; something is there only if another push has made it meanwhile.
      const made = byTarget.get(targets.get(update.ref))?.findLast(({ after }) => after !== zeroId)
      return made ? [{ ...update, before: made.after }] : []
    })
    .filter((update) => {
      const touching = byTarget.get(targets.get(update.ref)) ?? []
      const isReached = ({ ref, after }: RefUpdate) =>
        values.get(ref) === after || touching.some(({ before }) => before === after)
      if (!isReached(update)) return false
      if (!update.isAbsent && touching.some((other) => leadsTo(other, update))) return true
      // Git checks the old value, but not of what is deleted, when it has no such object.
      if (update.isStale && update.after !== zeroId) return false
      return !touching.some((other) => other.isRecorded && isSame(other, update))
    })
    .map(({ ref, before, after }) => ({ ref, before, after }))
}

/** What the record of a push says that it changes. */
export function intendedOf({ updates }: Pick<PushRow, 'updates'>): IntendedUpdate[] {
  const intended: IntendedUpdate[] = JSON.parse(updates)
  return intended.filter(({ before, after, isAbsent }) => before !== after || isAbsent)
}

// Whether git may let the one come to pass because of the other.
function leadsTo(other: RefUpdate, update: RefUpdate): boolean {
  return update.after === zeroId ? other.after !== zeroId : other.after === update.before
}

function isSame(one: RefUpdate, other: RefUpdate): boolean {
  return one.before === other.before && one.after === other.after
}
