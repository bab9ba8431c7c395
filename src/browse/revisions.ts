import { Type } from 'typebox'
import { Problem } from '#base/problem.ts'
import { branchPrefix, hasRefs, readDefaultBranch } from '#git/refs/refs.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { RevisionFinder } from '#repositories/revision-finder.ts'

/** The query parameter of a revision. */
export const RevisionQuery = {
  rev: Type.Optional(
    Type.String({
      description:
        'A branch, a tag, the full name of a ref, or the id of a commit or its first 7 or more digits; the default branch without it',
      maxLength: 1024,
    }),
  ),
}

/**
 * Finds the commit that a revision names, or that its tag leads to; by default that of the default branch. Throws
 * `revision_not_found` and `revision_ambiguous`.
 */
export async function findCommit(
  revisions: Pick<RevisionFinder, 'findPeeled'>,
  { name, path }: Pick<Repository, 'name' | 'path'>,
  rev: string | undefined,
): Promise<{ id: string; ref: string | undefined }> {
  const wanted = rev ?? branchPrefix + (await readDefaultBranch(path))
  const found = await revisions.findPeeled({ path }, wanted)
  if (found?.type === 'commit') return { id: found.id, ref: found.ref }
  if (found) {
    const detail = `"${rev}" is a ${found.type}; this needs a commit.`
    throw new Problem('revision_not_found', detail)
  }
  if (rev === undefined && !(await hasRefs(path, 'visible')))
    throw new Problem('revision_not_found', `The repository "${name}" is empty.`)
  const detail =
    rev === undefined
      ? `The default branch of "${name}" does not exist; give \`rev\`.`
      : `"${rev}" is no branch, tag, full ref name or id of "${name}". Ids are whole, or the first 7 or more of those of a commit that a branch or tag leads to; expressions such as main~1 are not accepted.`
  throw new Problem('revision_not_found', detail)
}

/** The problem of a commit that is too large, or damaged. */
export function commitUnreadable(id: string): Problem {
  return new Problem('git_limit_exceeded', `The commit ${id} is damaged or larger than 1 MiB.`)
}
