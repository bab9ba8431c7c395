import { zeroId } from './ref-name.ts'
import { hiddenRefs, type PushedUpdate } from './refs.ts'

const folder = `${hiddenRefs}/kept`

/** Whether an update left no ref to what was there before: it was deleted, or replaced by force. */
export function isOverwriting({ before, after, forced }: PushedUpdate): boolean {
  return before !== zeroId && (forced || after === zeroId)
}

/**
 * The hidden ref that keeps what an update of a push overwrote. It is named after the value: so it is the
 * same one however often it is made, and one for all refs that had this value.
 */
export function retainedRef(pushId: string, { before }: Pick<PushedUpdate, 'before'>): string {
  return `${folder}/${pushId}/${before}`
}

/** The push that a ref keeps something of; undefined for any other ref. */
export function retainingPush(ref: string): string | undefined {
  return ref.startsWith(`${folder}/`) ? ref.slice(folder.length + 1).split('/')[0] : undefined
}
