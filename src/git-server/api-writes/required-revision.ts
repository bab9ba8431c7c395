import { Problem, refusedName } from '#base/problem.ts'
import { type ObjectReader, ObjectTooLargeError } from '#git/objects/object-reader.ts'
import { isRefName, refNameFault, zeroId } from '#git/refs/ref-name.ts'
import { branchPrefix, readRefs } from '#git/refs/refs.ts'
import type { Revision } from '#git/refs/resolve-revision.ts'
import { invalid } from '#http/validation.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { RevisionFinder } from '#repositories/revision-finder.ts'

/** The full name of a branch. Throws `invalid_request` and `ref_name_refused`. */
export function branchRefOf(branch: string, pointer: string): string {
  const ref = branchPrefix + branch
  if (!branch.isWellFormed() || !isRefName(ref))
    throw invalid([{ pointer, detail: refusedName(branch, 'the name of a branch, such as main') }])
  const fault = refNameFault(ref)
  if (fault)
    throw new Problem('ref_name_refused', `The branch "${branch}" is refused: its name ${fault}.`)
  return ref
}

/** The present value of a ref; 40 zeros when there is none. */
export async function presentValueOf({ path }: Repository, ref: string): Promise<string> {
  return (await readRefs(path, [ref])).get(ref) ?? zeroId
}

/** Finds what a revision of a request names. Throws `ref_not_found` and `revision_ambiguous`. */
export async function requireRevision(
  revisions: RevisionFinder,
  repository: Repository,
  revision: string,
): Promise<Revision> {
  return found(revision, await revisions.find(repository, revision))
}

/** Finds the commit that a revision names, or that its tag leads to. Throws as `requireRevision` does. */
export async function requireCommit(
  revisions: RevisionFinder,
  repository: Repository,
  revision: string,
): Promise<Revision> {
  const commit = found(revision, await revisions.findPeeled(repository, revision))
  if (commit.type === 'commit') return commit
  throw new Problem('ref_not_found', `"${revision}" is a ${commit.type}, not a commit.`)
}

function found(revision: string, one: Revision | undefined): Revision {
  if (one) return one
  throw new Problem(
    'ref_not_found',
    `There is no "${revision}": it takes a branch, a tag, the full name of a ref, an id, or the first 7 digits of that of a commit that a branch or tag leads to.`,
  )
}

// About 400,000 entries.
const treeMaxBytes = 16 * 1024 * 1024

/** Reads a tree. Throws `git_limit_exceeded` for one that is too large. */
export async function readTree(objects: ObjectReader, id: string): Promise<Buffer> {
  const tree = await objects.read(id, treeMaxBytes).catch((error) => {
    if (!(error instanceof ObjectTooLargeError)) throw error
    const detail = `A directory on the way has more than ${treeMaxBytes} bytes of names; change it with git.`
    throw new Problem('git_limit_exceeded', detail)
  })
  if (tree?.type !== 'tree') throw new Problem('repository_damaged', `The tree ${id} is missing.`)
  return tree.content
}
