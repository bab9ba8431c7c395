import { isObjectId } from '#base/object-id.ts'
import { AmbiguousObjectError, type ObjectReader } from '../objects/object-reader.ts'
import { isHiddenRef, isRefName, zeroId } from './ref-name.ts'
import { branchPrefix, tagPrefix } from './refs.ts'

/** The object that a revision names, and the ref that it was, if it was one. */
export type Revision = { id: string; type: string; ref: string | undefined }

type Source = {
  /** Reads refs by full name; all zeros, or nothing, for those that do not exist. */
  readRefs: (names: string[]) => Promise<ReadonlyMap<string, string>>
  objects: Pick<ObjectReader, 'find'>
  /** Whether a visible ref leads to a commit. */
  isReachable: (id: string) => Promise<boolean>
}

/**
 * Resolves a revision that a client names: a whole id, the full name of a ref, a branch, a tag, or the first 7 or more
 * digits of the id of a commit, in this order. Never an expression such as `main~1`. Hidden refs do not exist. An annotated
 * tag is not peeled. A whole id finds every object, but its first digits can be guessed: they find only commits that visible
 * refs lead to. Undefined when there is none. Throws an AmbiguousObjectError when several ids begin with the digits.
 */
export async function resolveRevision(
  { readRefs, objects, isReachable }: Source,
  revision: string,
): Promise<Revision | undefined> {
  // As for Git, a whole id is no name, and no ref that is pushed may have it.
  const whole = isObjectId(revision.toLowerCase())
    ? await objects.find(revision.toLowerCase())
    : undefined
  if (whole) return { id: whole.id, type: whole.type, ref: undefined }
  const names = namesOf(revision)
  const values = names.length > 0 ? await readRefs(names) : new Map<string, string>()
  const ref = names.find((name) => (values.get(name) ?? zeroId) !== zeroId)
  const id = ref === undefined ? revision.toLowerCase() : (values.get(ref) ?? '')
  if (!/^[0-9a-f]{7,64}$/.test(id)) return undefined
  const found = await objects.find(id)
  // Newer versions of Git ignore what follows a whole id.
  if (!found || id.length > found.id.length) return undefined
  // Git prefers some refs, such as refs/remotes/abc1234, to abbreviated ids.
  if (!found.id.startsWith(id)) throw new AmbiguousObjectError(`${id} is also the name of a ref`)
  const isFound = ref !== undefined || (found.type === 'commit' && (await isReachable(found.id)))
  return isFound ? { id: found.id, type: found.type, ref } : undefined
}

/** The full names of the refs that a revision may be. */
function namesOf(revision: string): string[] {
  const all = [revision, branchPrefix + revision, tagPrefix + revision]
  return all.filter((name) => name.startsWith('refs/') && isRefName(name) && !isHiddenRef(name))
}
