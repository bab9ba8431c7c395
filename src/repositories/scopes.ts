import { requireAllRefs } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import type { Role } from '#access/roles.ts'
import type { ProblemCode } from '#base/problem.ts'
import { apiPathOf, toNamespaceOperation } from '#base/repository-name.ts'
import type { Db } from '#database/schema.ts'
import type { FindRequest, JsonRoute } from '#http/route.ts'
import { openProblems } from './open-repository.ts'
import { namespaceGone } from './place-name.ts'
import type { Need, Repositories } from './repositories.ts'
import { repositoryGone } from './repository-errors.ts'
import { lockScope, type ScopeKind } from './scope-store.ts'

/** What has secrets, webhooks and protections: a repository, or a namespace for all of its repositories. */
export type NamedScope = { kind: ScopeKind; id: string; name: string }

/**
 * Keeps a scope until the transaction ends, before something is added to it, since no constraint does. Throws
 * `repository_not_found` or `namespace_not_found` when it was deleted. It precedes all other locks.
 */
export async function holdScope(tx: Db, scope: NamedScope): Promise<void> {
  if (await lockScope(tx, scope)) return
  const { kind, name } = scope
  throw kind === 'repository' ? repositoryGone({ name }) : namespaceGone(name)
}

/** What an event about a scope has: its repository, or in its data the name of the namespace. */
export function placeOf({ kind, id, name }: NamedScope) {
  return kind === 'repository'
    ? { repositoryId: id, inNamespace: {} }
    : { repositoryId: null, inNamespace: { namespace: name } }
}

/** The name of a scope in a response of the API. */
export function nameField({
  kind,
  name,
}: NamedScope): { repoName: string } | { namespace: string } {
  return kind === 'repository' ? { repoName: name } : { namespace: name }
}

/** The path of a scope in the API. */
export function apiPathOfScope(kind: ScopeKind, name: string): string {
  return kind === 'repository' ? apiPathOf(name) : `/namespaces/${name}`
}

/** What opens repositories and namespaces for routes. */
export type ScopeAccess = {
  repositories: Pick<Repositories, 'open'>
  namespaces: {
    open: (principal: Principal, name: string, role: Role) => Promise<Omit<NamedScope, 'kind'>>
  }
}

/** Who may do something in a scope: those with a role for the permission, or only those with `maintain` or more. */
type ScopeNeed = Exclude<Need, 'owner'>

/** Routes that repositories and namespaces have alike, for one of these kinds. */
export type ScopeRoutes = {
  kind: ScopeKind
  /** Their paths begin with it. */
  path: '/repos/:name' | '/namespaces/:namespace'
  /** Opens the scope of the path for those who may. */
  open: (need: ScopeNeed) => (request: FindRequest) => Promise<NamedScope>
  /** The problems of `open`. */
  problems: (need: ScopeNeed) => ProblemCode[]
}

/** Lists routes for both kinds of scopes. Operations of namespaces have this word in their names. */
export function routesOfScopes(
  { repositories, namespaces }: ScopeAccess,
  routesOf: (scope: ScopeRoutes) => JsonRoute[],
): JsonRoute[] {
  const ofRepository: ScopeRoutes = {
    kind: 'repository',
    path: '/repos/:name',
    problems: (need) =>
      need === 'member' ? [...openProblems] : [...openProblems, 'owner_required'],
    open:
      (need) =>
      async ({ principal, permission, params: { name = '' } }) => {
        const repository = await repositories.open(principal, name, permission, need)
        return { kind: 'repository', id: repository.id, name: repository.name }
      },
  }
  const ofNamespace: ScopeRoutes = {
    kind: 'namespace',
    path: '/namespaces/:namespace',
    problems: () => ['namespace_not_found', 'role_insufficient', 'token_limited'],
    open:
      (need) =>
      async ({ principal, permission, params: { namespace = '' } }) => {
        const isRead = permission.endsWith(':read')
        const role = need === 'maintainer' ? 'maintain' : isRead ? 'read' : 'write'
        const { id, name } = await namespaces.open(principal, namespace, role)
        if (!isRead) requireAllRefs(principal)
        return { kind: 'namespace', id, name }
      },
  }
  return [...routesOf(ofRepository), ...routesOf(ofNamespace).map(named)]
}

function named(route: JsonRoute): JsonRoute {
  return {
    ...route,
    operationId: toNamespaceOperation(route.operationId),
    summary: `${route.summary} (namespace)`,
  }
}
