import type { Permission } from '#access/permissions.ts'
import { Problem } from '#base/problem.ts'
import type { FindRequest } from '#http/route.ts'
import type { Need, Repositories, Repository } from '#repositories/repositories.ts'

/** Opens the repository of a Git URL, whose last segment ends in `.git`. */
export function findByGitUrl(
  { openForGit }: Pick<Repositories, 'openForGit'>,
  { principal, permission, params }: FindRequest,
  need: Need = 'member',
): Promise<Repository> {
  const { repository = '' } = params
  if (!repository.endsWith('.git')) {
    throw new Problem(
      'route_not_found',
      `The Git URL of a repository ends in .git: /repos/${repository}.git`,
    )
  }
  const name = repository.slice(0, -'.git'.length)
  return openForGit(principal, name, permission, need)
}

/** Who may open a repository for a fetch or push: a push may propose a change, which is known only by its updates. */
export function needOf(permission: Permission): Need {
  return permission === 'repo:write' ? 'proposer' : 'member'
}
