import { zeroId } from './ref-name.ts'
import { hiddenRefs, type PushedUpdate } from './refs.ts'

const folder = `${hiddenRefs}/kept`

/** Whether an update overwrote commits: a deletion or a forced update. */
export function isOverwriting({ before, after, forced }: PushedUpdate): boolean {
  return before !== zeroId && (forced || after === zeroId)
}

/**
 * Returns the hidden ref that retains what an update of a push overwrote. It is named after the value, so creating it
 * is idempotent, and refs of the same value share it.
 */
export function retainedRef(pushId: string, { before }: Pick<PushedUpdate, 'before'>): string {
  return `${folder}/${pushId}/${before}`
}

/** Returns the push that a ref retains commits of; undefined for any other ref. */
export function retainingPush(ref: string): string | undefined {
  return ref.startsWith(`${folder}/`) ? ref.slice(folder.length + 1).split('/')[0] : undefined
}
