import { Problem, type ProblemKind, problems } from '#base/problem.ts'
import type { JsonRoute, Route } from '#http/route.ts'
import type { Repositories, Repository } from './repositories.ts'

// Any other error, such as an unreachable database, does not explain a failure.
const losses = new Set<ProblemKind>(['unauthenticated', 'forbidden', 'not-found'])

/**
 * Checks the access to the repository of a route again when its handler fails: a repository may be deleted, and a role
 * taken away, meanwhile. The response is then that of a new request. `find` of the routes returns the repository.
 */
export function recheckAccess(
  repositories: Pick<Repositories, 'reopen'>,
  routes: readonly Route[],
): Route[] {
  return routes.map((route) => (route.kind === 'json' ? rechecked(repositories, route) : route))
}

function rechecked(repositories: Pick<Repositories, 'reopen'>, route: JsonRoute): JsonRoute {
  const { permission, handle } = route
  if (!permission || permission === 'run') return route
  return {
    ...route,
    async handle(context) {
      try {
        return await handle(context)
      } catch (error) {
        const repository = context.found as Repository
        const lost = await repositories
          .reopen(context.principal, repository, permission)
          .then(() => undefined, toLoss)
        throw lost ?? error
      }
    },
  }
}

function toLoss(error: unknown): Problem | undefined {
  return error instanceof Problem && losses.has(problems[error.code].kind) ? error : undefined
}
