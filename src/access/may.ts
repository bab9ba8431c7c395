import { Problem } from '#base/problem.ts'
import { matchesPattern } from '#base/text-pattern.ts'
import type { Permission } from './permissions.ts'
import type { Principal } from './principal.ts'
import { includesRole, type Role } from './roles.ts'

/** The standing of a principal in a repository: its owner, and the role of the principal as a collaborator, if it is one. */
export type Standing = { id: string; ownerUsername: string; role: Role | undefined }

export function isAdmin(principal: Principal): boolean {
  return principal.permissions.has('admin')
}

/** Whether a principal holds a permission, itself or as an admin. */
export function holds(principal: Principal, permission: Permission): boolean {
  return principal.permissions.has(permission) || isAdmin(principal)
}

/** Throws `permission_missing` if a principal lacks a permission. */
export function requirePermission(principal: Principal, permission: Permission): void {
  if (holds(principal, permission)) return
  const why =
    principal.kind === 'job'
      ? '; the token of a job has what `permissions` of its workflow asks for, `runTokens` of the repository allows, ' +
        'and the token or key that caused the run has now'
      : ''
  throw new Problem('permission_missing', `This requires the permission ${permission}${why}.`)
}

/** The role of a principal in a repository: `admin` for its owner and for admins; undefined when it cannot see it. */
export function roleOf(principal: Principal, standing: Standing): Role | undefined {
  const { id, ownerUsername, role } = standing
  if (!isWithin(principal, id)) return undefined
  // Its repository is the only one that it is limited to, and its permissions say what it may do there.
  if (principal.kind === 'job') return 'write'
  if (isAdmin(principal) || principal.username === ownerUsername) return 'admin'
  return role ?? (maySeeAll(principal) ? 'read' : undefined)
}

/** Whether a principal passes the owner checks of a repository. */
export function mayOwn(principal: Principal, standing: Standing): boolean {
  return roleOf(principal, standing) === 'admin'
}

/** Whether a principal may change the protections and webhooks of a repository. */
export function mayMaintain(principal: Principal, standing: Standing): boolean {
  const role = roleOf(principal, standing)
  return role !== undefined && includesRole(role, 'maintain')
}

/** Whether a principal can see every repository. */
export function maySeeAll(principal: Principal): boolean {
  return isAdmin(principal) || principal.kind === 'anonymous'
}

/** Whether a principal can see a repository. */
export function maySee(principal: Principal, standing: Standing): boolean {
  return roleOf(principal, standing) !== undefined
}

/** Throws `role_insufficient` if a principal has a permission, but in this repository only the right to read. */
export function requireRole(
  principal: Principal,
  standing: Standing,
  permission: Permission,
): void {
  if (permission.endsWith(':read') || roleOf(principal, standing) !== 'read') return
  throw new Problem(
    'role_insufficient',
    'Your role in this repository is read; this requires write.',
  )
}

/** Whether a principal may do in a repository what needs a permission and nothing else. */
export function mayUse(principal: Principal, standing: Standing, permission: Permission): boolean {
  const role = roleOf(principal, standing)
  const isEnough = role !== undefined && (permission.endsWith(':read') || role !== 'read')
  return isEnough && holds(principal, permission)
}

/** Whether a repository is among those that a principal is limited to. */
export function isWithin({ repositories }: Principal, repositoryId: string): boolean {
  return repositories === undefined || repositories.has(repositoryId)
}

/** Throws `token_limited` if a principal is limited to some repositories. */
export function requireAllRepositories({ repositories }: Principal): void {
  if (repositories === undefined) return
  const detail = 'This token is limited to some repositories, and this is about more than those.'
  throw new Problem('token_limited', detail)
}

/** Throws `token_limited` if a principal is limited to some refs: settings of a repository concern all of them. */
export function requireAllRefs({ refs }: Principal): void {
  if (refs === undefined) return
  const detail =
    'This token is limited to some refs. It can push them, and changes nothing else of a repository.'
  throw new Problem('token_limited', detail)
}

/** Throws `token_limited` if a principal is a job: its run would start the next one without end. */
export function requireNoJob({ kind }: Principal): void {
  if (kind !== 'job') return
  throw new Problem('token_limited', 'A run cannot start or repeat runs.')
}

/** Whether a principal stands for its user, not only for a part of the user's rights or through another token. */
export function isWholeUser({ kind, repositories, refs, isDelegated }: Principal): boolean {
  return kind !== 'ssh-key' && repositories === undefined && refs === undefined && !isDelegated
}

/**
 * Throws `token_limited` if a principal has only a part of its user's rights, or has them from another token: keys and
 * tokens that it made would have more rights or last longer. So would those that a session of an SSH key made.
 */
export function requireWholeUser(principal: Principal): void {
  if (isWholeUser(principal)) return
  if (principal.kind === 'ssh-key') {
    const detail = 'You are logged in with an SSH key; keys and tokens are changed with a token.'
    throw new Problem('token_limited', detail)
  }
  const detail =
    'This token is limited or was delegated; keys and other tokens take one that is neither. To make a token with a ' +
    'part of its rights: POST /tokens/delegate.'
  throw new Problem('token_limited', detail)
}

/** Throws `token_limited` if a principal may not change a ref, given by its full name. */
export function requireRef({ refs }: Principal, ref: string): void {
  if (refs === undefined || refs.some((pattern) => matchesPattern(ref, pattern))) return
  const detail = `This token may not change "${ref}"; it may change ${refs.join(', ') || 'no ref'}.`
  throw new Problem('token_limited', detail)
}
