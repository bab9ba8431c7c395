import { Problem } from '#base/problem.ts'
import type { FindRequest } from '#http/route.ts'
import type { Repositories, Repository } from '#repositories/repositories.ts'

/** Opens the repository of a Git URL, whose last segment ends in `.git`. */
export function findByGitUrl(
  { openForGit }: Pick<Repositories, 'openForGit'>,
  { principal, permission, params }: FindRequest,
): Promise<Repository> {
  const { repository = '' } = params
  if (!repository.endsWith('.git')) {
    throw new Problem(
      'route_not_found',
      `The Git URL of a repository ends in .git: /repos/${repository}.git`,
    )
  }
  return openForGit(principal, repository.slice(0, -'.git'.length), permission)
}
