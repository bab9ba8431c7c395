import { isAdmin } from '#access/may.ts'
import { isNamespaceName } from '#access/names.ts'
import type { Principal } from '#access/principal.ts'
import { includesRole, type Role } from '#access/roles.ts'
import { Problem } from '#base/problem.ts'
import { namespaceIn } from '#base/repository-name.ts'
import type { Db, NamespaceRow } from '#database/schema.ts'
import type { Actor } from '#events/events.ts'
import {
  findNamespace,
  hasVisibleRepository,
  type JoinedNamespace,
  lockNamespace,
} from './namespace-store.ts'
import { nameTaken } from './repository-errors.ts'
import { countNames, viewerOf } from './repository-store.ts'

/** The namespace of a repository's name; null for a name without one. */
export type Place = Pick<NamespaceRow, 'id' | 'name'> | null

/** The role of a principal in a namespace; undefined when it has none. */
export function roleInNamespace(principal: Principal, { role }: JoinedNamespace): Role | undefined {
  return isAdmin(principal) ? 'admin' : role
}

/**
 * The namespace of a name that a principal wants to give to a repository. Throws `namespace_not_found`, and
 * `role_insufficient` unless it has the role `maintain` there.
 */
export async function requirePlace(db: Db, principal: Principal, name: string): Promise<Place> {
  const namespace = namespaceIn(name)
  if (namespace === undefined) return null
  const { role, id, name: ownName } = await requireNamespace(db, principal, namespace)
  if (role !== undefined && includesRole(role, 'maintain')) return { id, name: ownName }
  const own = role === undefined ? 'You are not a member of' : `Your role is ${role} in`
  const detail = `${own} the namespace "${namespace}"; to put a repository there takes the role maintain.`
  throw new Problem('role_insufficient', detail)
}

/** A namespace that a principal can see, with its role. Throws `namespace_not_found`. */
export async function requireNamespace(
  db: Db,
  principal: Principal,
  name: string,
): Promise<JoinedNamespace> {
  const found = isNamespaceName(name)
    ? await findNamespace(db, name, principal.username)
    : undefined
  if (!found) throw namespaceGone(name)
  const role = roleInNamespace(principal, found)
  if (role === undefined && !(await hasVisibleRepository(db, viewerOf(principal), found.id)))
    throw namespaceGone(name)
  return { ...found, role }
}

/** The same for a list of its repositories: a token for some of them reveals no other namespace. */
export async function requireListedNamespace(
  db: Db,
  principal: Principal,
  name: string,
): Promise<JoinedNamespace> {
  const found = await requireNamespace(db, principal, name)
  if (principal.repositories && !(await hasVisibleRepository(db, viewerOf(principal), found.id)))
    throw namespaceGone(name)
  return found
}

/**
 * The namespace in which a repository stays, or the one that a new name puts it into. Throws `namespace_not_found` and
 * `role_insufficient`: to take another name in a namespace takes the role `maintain`, too, at least in the repository.
 */
export async function placeOfRename(
  db: Db,
  principal: Principal,
  { name, namespaceId, role }: NamedRepository,
  newName: string,
): Promise<Place> {
  const namespace = namespaceIn(newName)
  if (namespace !== namespaceIn(name)) return requirePlace(db, principal, newName)
  if (namespaceId === null || namespace === undefined) return null
  requireMaintained({ name, namespaceId, role }, 'rename')
  return { id: namespaceId, name: namespace }
}

/** Throws `role_insufficient` for a repository in a namespace in which a principal has less than the role `maintain`. */
export function requireMaintained(
  { name, namespaceId, role }: NamedRepository,
  action: 'rename' | 'delete',
): void {
  if (namespaceId === null || includesRole(role, 'maintain')) return
  const detail = `Your role in "${name}" is ${role}; to ${action} a repository of a namespace takes the role maintain.`
  throw new Problem('role_insufficient', detail)
}

type NamedRepository = {
  name: string
  namespaceId: string | null
  /** The role of the principal in it. */
  role: Role
}

/** Keeps the namespace of a name as it is until the transaction ends. It precedes all other locks. */
export async function holdPlace(tx: Db, place: Place): Promise<void> {
  if (place && !(await lockNamespace(tx, place, 'share'))) throw namespaceGone(place.name)
}

/**
 * Throws `repository_name_taken` when a namespace and a repository have the same name. As the counter of events is locked
 * once a transaction has published its own, two that take one name do not both miss the other.
 */
export async function requireSingleUse(tx: Db, name: string): Promise<void> {
  if ((await countNames(tx, name)) > 1) throw nameTaken(name)
}

/** The same Problem as for a namespace that never existed. */
export function namespaceGone(name: string): Problem {
  const detail = `There is no namespace "${name}", or it is not yours to see.`
  return new Problem('namespace_not_found', detail)
}

/** The event of a member who was removed, or has left. */
export function memberRemoved(actor: Actor, namespace: string, member: string) {
  const data = { namespace, member }
  return { kind: 'namespace.member_removed', actor, repositoryId: null, data } as const
}
