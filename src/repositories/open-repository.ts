import type { FindRequest } from '#http/route.ts'
import type { Need, Repositories, Repository } from './repositories.ts'

/** The problems of routes that open a repository. */
export const openProblems = ['repository_not_found', 'repository_importing'] as const

export type OpenRepository = (request: FindRequest<{ name: string }>) => Promise<Repository>

/** Opens the repository that the path of a route names. */
export function openOfRoute(repositories: Pick<Repositories, 'open'>, need?: Need): OpenRepository {
  return ({ principal, permission, params }) =>
    repositories.open(principal, params.name, permission, need)
}
