import { Type } from 'typebox'
import { Problem } from '../base/problem.ts'
import { AmbiguousObjectError, type ObjectReader } from '../git/objects/object-reader.ts'
import { branchPrefix, hasRefs, readDefaultBranch, readRefs } from '../git/refs/refs.ts'
import { type Revision, resolveRevision } from '../git/refs/resolve-revision.ts'
import type { Repository } from '../repositories/repositories.ts'

export const revisionProblems = ['revision_not_found', 'revision_ambiguous'] as const

/** The query parameter of a revision. */
export const RevisionQuery = {
  rev: Type.Optional(
    Type.String({
      description:
        'A branch, a tag, the full name of a ref, or the id of an object or its first 7 or more digits; the default branch without it',
      maxLength: 1024,
    }),
  ),
}

/**
 * Resolves a revision, by default the default branch. Throws `revision_not_found` and `revision_ambiguous`.
 */
async function findRevision(
  objects: Pick<ObjectReader, 'find'>,
  { name, path }: Pick<Repository, 'name' | 'path'>,
  rev: string | undefined,
): Promise<Revision> {
  const wanted = rev ?? branchPrefix + (await readDefaultBranch(path))
  const source = { objects, readRefs: (names: string[]) => readRefs(path, names) }
  const found = await resolveRevision(source, wanted).catch((error) => {
    if (!(error instanceof AmbiguousObjectError)) throw error
    const detail = `"${wanted}" is ambiguous; give more digits of the id, or the full name of a ref.`
    throw new Problem('revision_ambiguous', detail)
  })
  if (found) return found
  if (rev === undefined && !(await hasRefs(path, 'visible')))
    throw new Problem('revision_not_found', `The repository "${name}" is empty.`)
  const detail =
    rev === undefined
      ? `The default branch of "${name}" does not exist; give \`rev\`.`
      : `"${rev}" is no branch, tag, full ref name or id of "${name}". Ids have 7 to 40 digits; expressions such as main~1 are not accepted.`
  throw new Problem('revision_not_found', detail)
}

/** Like `findRevision`, for the commit that the revision names or that its tag points to. */
export async function findCommit(
  objects: Pick<ObjectReader, 'find'>,
  repository: Pick<Repository, 'name' | 'path'>,
  rev: string | undefined,
): Promise<{ id: string; ref: string | undefined }> {
  const { id, type, ref } = await findRevision(objects, repository, rev)
  if (type === 'commit') return { id, ref }
  const peeled = await objects.find(`${id}^{}`)
  if (peeled?.type === 'commit') return { id: peeled.id, ref }
  const detail = `"${rev}" is a ${peeled?.type ?? type}; this needs a commit.`
  throw new Problem('revision_not_found', detail)
}

/** The problem of a commit that is too large, or damaged. */
export function commitUnreadable(id: string): Problem {
  return new Problem('git_limit_exceeded', `The commit ${id} is damaged or larger than 1 MiB.`)
}
