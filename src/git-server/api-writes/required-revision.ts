import { Problem } from '../../base/problem.ts'
import { AmbiguousObjectError, type ObjectReader } from '../../git/objects/object-reader.ts'
import { isRefName, refNameFault, zeroId } from '../../git/refs/ref-name.ts'
import { branchPrefix, readRefs } from '../../git/refs/refs.ts'
import { type Revision, resolveRevision } from '../../git/refs/resolve-revision.ts'
import { invalid } from '../../http/validation.ts'
import type { Repository } from '../../repositories/repositories.ts'

/** The full name of a branch. Throws `invalid_request` and `ref_name_refused`. */
export function branchRefOf(branch: string, pointer: string): string {
  const ref = branchPrefix + branch
  if (!branch.isWellFormed() || !isRefName(ref))
    throw invalid([{ pointer, detail: 'is not the name of a branch, such as main.' }])
  const fault = refNameFault(ref)
  if (fault)
    throw new Problem('ref_name_refused', `The branch "${branch}" is refused: its name ${fault}.`)
  return ref
}

/** The present value of a ref; 40 zeros when there is none. */
export async function presentValueOf({ path }: Repository, ref: string): Promise<string> {
  return (await readRefs(path, [ref])).get(ref) ?? zeroId
}

/** Resolves a revision of a request. Throws `ref_not_found` and `revision_ambiguous`. */
export async function requireRevision(
  { path }: Repository,
  objects: ObjectReader,
  revision: string,
): Promise<Revision> {
  const source = { readRefs: (names: string[]) => readRefs(path, names), objects }
  const found = await resolveRevision(source, revision).catch((error) => {
    if (!(error instanceof AmbiguousObjectError)) throw error
    const detail = `"${revision}" could be several things; give more digits of the id, or the full name of the ref.`
    throw new Problem('revision_ambiguous', detail)
  })
  if (found) return found
  throw new Problem(
    'ref_not_found',
    `There is no "${revision}": it takes a branch, a tag, the full name of a ref, or an id or its first 7 digits.`,
  )
}

/** Resolves a revision to a commit. Throws `ref_not_found` and `revision_ambiguous`. */
export async function requireCommit(
  repository: Repository,
  objects: ObjectReader,
  revision: string,
): Promise<Revision> {
  const found = await requireRevision(repository, objects, revision)
  const commit = await objects.find(`${found.id}^{commit}`)
  if (commit) return { ...found, id: commit.id, type: 'commit' }
  throw new Problem('ref_not_found', `"${revision}" is a ${found.type}, not a commit.`)
}
