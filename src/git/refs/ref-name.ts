import { idDigits, isObjectId, type ObjectFormat } from '#base/object-id.ts'
import { refusedName } from '#base/problem.ts'
/** The object id that means that a ref does not exist. */
export const zeroId = '0'.repeat(40)

const sha256Zeros = '0'.repeat(64)

/** An id of git, whose zeros for a ref that does not exist have the length of other ids, with `zeroId` for these. */
export function fromGitId(id: string): string {
  return id === sha256Zeros ? zeroId : id
}

/** An id for git, which needs zeros of the length of the repository's other ids. */
export function toGitId(id: string, format: ObjectFormat): string {
  return id === zeroId ? '0'.repeat(idDigits(format)) : id
}

/** The prefix of refs that are hidden from clients. */
export const hiddenRefs = 'refs/svc'

/** Whether a ref is hidden from clients. */
export function isHiddenRef(name: string): boolean {
  return `${name}/`.startsWith(`${hiddenRefs}/`)
}

export const refMaxLength = 1024
/** Git stores a ref in a file of its name and locks it by one that ends in `.lock`; file names have up to 255 bytes. */
const partMaxBytes = 250
/** The prefix of the hidden refs that retain commits. */
export const retainedRefs = `${hiddenRefs}/kept/`
/** The prefix of the names to which changes are proposed: one for each branch. */
export const proposalRefs = 'refs/for/'
/** The prefix of the names by which versions of changes are fetched: `refs/changes/7/1`. */
const versionRefs = 'refs/changes/'

/** The name by which a version of a change is fetched. */
export function versionName({ number, version }: { number: number; version: number }): string {
  return `${versionRefs}${number}/${version}`
}

/** The hidden ref that keeps the commit of a version. */
export function versionRef(of: { number: number; version: number }): string {
  return hiddenNameOf(versionName(of))
}

/** The hidden ref behind a name by which clients fetch. */
export function hiddenNameOf(name: string): string {
  return `${hiddenRefs}/${name.slice('refs/'.length)}`
}

/** The name by which the commit of a trial of the queue is fetched. */
export function trialName(id: string): string {
  return `${versionRefs}queue/${id}`
}

/** The hidden ref of a version or of a commit of the queue, given by the name by which it is fetched; undefined for any other name. */
export function hiddenVersionRef(name: string): string | undefined {
  return /^refs\/changes\/([1-9]\d{0,8}\/[1-9]\d{0,8}|queue\/[0-9a-z]{26})$/.test(name)
    ? hiddenNameOf(name)
    : undefined
}

/**
 * Whether a full ref name is well formed, by the rules of `git check-ref-format`:
 * https://git-scm.com/docs/git-check-ref-format
 */
export function isRefName(name: string): boolean {
  return (
    name.length <= refMaxLength &&
    name.includes('/') &&
    !/[\0-\x20\x7f~^:?*[\\]/.test(name) &&
    !/\.\.|@\{|\/\/|\.$|^\/|\/$/.test(name) &&
    name.split('/').every((part) => !part.startsWith('.') && !part.endsWith('.lock'))
  )
}

/** Explains why a text is not a full ref name, with a suggestion, as the end of a sentence; undefined when it is one. */
export function fullNameFault(name: string): string | undefined {
  if (name.startsWith('refs/') && isRefName(name)) return undefined
  const meant = /^(heads|tags)\//.test(name) ? `refs/${name}` : `refs/heads/${name}`
  const isLikely =
    !name.startsWith('refs/') && isRefName(meant) && refNameFault(meant) === undefined
  return refusedName(
    name,
    `the full name of a ref, such as ${isLikely ? meant : 'refs/heads/main'}`,
  )
}

/** Explains why a well-formed ref name may not be pushed, as the end of a sentence; undefined when it may. */
export function refNameFault(name: string): string | undefined {
  if (!name.startsWith('refs/')) return 'does not start with refs/'
  if (/^refs\/svc(\/|$)/.test(name)) return 'is kept for the service itself'
  if (/^refs\/replace(\/|$)/.test(name)) return 'would replace objects for everybody'
  if (/^refs\/changes(\/|$)/.test(name))
    return 'is that of a version of a change, which is made by a push to refs/for/BRANCH'
  if (/^refs\/for(\/|$)/.test(name))
    return 'is for proposing a change: push a commit, and nothing else, to refs/for/BRANCH'
  if (name.split('/').some((part) => Buffer.byteLength(part) > partMaxBytes))
    return `has a part of more than ${partMaxBytes} bytes`
  const [, short] = /^refs\/(?:heads|tags)\/(.*)$/s.exec(name) ?? []
  return short === undefined ? undefined : shortNameFault(short)
}

/** Explains why a branch or tag name that Git would accept is not allowed; undefined when it is. */
export function shortNameFault(short: string): string | undefined {
  if (short.startsWith('-')) return 'starts with "-" and would be taken as an option'
  if (short === 'HEAD') return 'would be mistaken for HEAD'
  if (short.startsWith('refs/')) return 'repeats "refs/"'
  if (isObjectId(short.toLowerCase())) return 'would be mistaken for an object id'
  return undefined
}

/**
 * Returns the hidden ref that retains what an update of a push overwrote. It is named after the value, so creating it
 * is idempotent, and refs of the same value share it.
 */
export function retainedRef(pushId: string, { before }: { before: string }): string {
  return `${retainedRefs}${pushId}/${before}`
}

/** Returns the push that a ref retains commits of; undefined for any other ref. */
export function retainingPush(ref: string): string | undefined {
  return ref.startsWith(retainedRefs) ? ref.slice(retainedRefs.length).split('/')[0] : undefined
}
