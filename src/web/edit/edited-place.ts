import { Problem } from '#base/problem.ts'
import { branchPrefix } from '#git/refs/refs.ts'
import { editingFault, toQuery, toTarget, unless } from '../code/code-target.ts'
import type { PageTarget } from '../links.ts'
import type { SharedContext } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'

/** A file or folder that a form changes. */
export type EditedPlace = {
  kind: 'file' | 'folder'
  /** Id of its blob or tree. */
  id: string
  /** Its content; undefined if it cannot be edited in a form, for the reason in `fault`. */
  text?: string
  fault?: string
}

/** The branch and path of a form. Throws `route_not_found`, and `invalid_request` for a path that the API does not take. */
export function branchTarget({ params }: Pick<SharedContext, 'params'>): PageTarget {
  const target = toTarget(params.target)
  if (target.path.pathBase64 === undefined) return target
  throw new Problem('invalid_request', 'The path is not UTF-8: change it with git.')
}

/** Where there are paths of files and folders, not the root. Throws `route_not_found`. */
export function placeTarget(context: Pick<SharedContext, 'params'>): PageTarget {
  const target = branchTarget(context)
  if (target.path.path !== '') return target
  throw new Problem('route_not_found', 'There is no such page.')
}

/**
 * The commit that a branch is at; undefined for the default branch of an empty repository. Throws `revision_not_found`, also
 * for tags and commits: forms change branches.
 */
export async function headOf(
  { read }: Pick<SharedContext, 'read'>,
  branch: string,
): Promise<string | undefined> {
  const query = { rev: branchPrefix + branch, limit: 1 }
  const commits = await read('listCommits', { query }).catch(unless('revision_not_found'))
  if (commits?.[0]) return commits[0].id
  const { empty, defaultBranch } = await read('getRepository')
  if (empty && branch === defaultBranch) return undefined
  const detail = `There is no branch "${branch}": files are changed on branches.`
  throw new Problem('revision_not_found', detail)
}

/** The file or folder at a path of a commit; undefined if there is none. */
export async function findPlace(
  { read }: Pick<SharedContext, 'read'>,
  commit: string,
  path: PageTarget['path'],
): Promise<EditedPlace | undefined> {
  const query = toQuery(commit, path)
  const file = await read('getFile', { query }).catch(unless('path_not_found'))
  if (file) return toPlace(file)
  const tree = await read('getTree', { query: { ...query, limit: 1 } }).catch(
    unless('path_not_found'),
  )
  return tree && { kind: 'folder', id: tree.id }
}

function toPlace(file: OperationValues['getFile']): EditedPlace {
  const { id, content } = file
  const fault = editingFault(file)
  return fault === undefined
    ? { kind: 'file', id, text: content ?? '' }
    : { kind: 'file', id, fault }
}
