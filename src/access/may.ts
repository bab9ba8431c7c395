import { Problem } from '#base/problem.ts'
import { matchesPattern } from '#base/text-pattern.ts'
import { isRunUsername } from './names.ts'
import { type Permission, presets } from './permissions.ts'
import type { Principal } from './principal.ts'
import { includesRole, type Role } from './roles.ts'
import { openToUsers, type Visibility } from './visibility.ts'

/**
 * What determines the role of a principal in a repository: the repository's owner, namespace and visibility, and the
 * principal's role as a collaborator or member, if any.
 */
export type Standing = {
  id: string
  ownerUsername: string
  namespaceId: string | null
  visibility: Visibility
  role: Role | undefined
}

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
      ? '; a job token has only what `permissions` in its workflow requests, `runTokens` of the repository allows, ' +
        'and the token or key that caused the run still has'
      : ''
  throw new Problem('permission_missing', `This requires the permission ${permission}${why}.`)
}

/**
 * The role of a principal in a repository: `admin` for its owner and for admins, `read` for those who only its visibility
 * lets in; undefined when the repository is hidden from it.
 */
export function roleOf(principal: Principal, standing: Standing): Role | undefined {
  const { role } = standing
  if (!isWithin(principal, standing)) return undefined
  // The token of a job or workload is limited to its repositories, and its permissions limit it further.
  if (principal.kind === 'job' || principal.kind === 'workload')
    return principal.isRestricted ? 'read' : 'write'
  if (isAdmin(principal) || isOwner(principal, standing)) return 'admin'
  return role ?? (isOpenTo(principal, standing) ? 'read' : undefined)
}

/** Whether a principal owns a repository. In a namespace, ownership requires a role there. */
function isOwner({ username }: Principal, { ownerUsername, namespaceId, role }: Standing): boolean {
  return username === ownerUsername && (namespaceId === null || role !== undefined)
}

/** Whether a principal can read a repository without a role in it. */
function isOpenTo(principal: Principal, { visibility }: Standing): boolean {
  return maySeeAll(principal) || visibilitiesOpenTo(principal).includes(visibility)
}

const noVisibilities: readonly Visibility[] = []
const openToEverybody: readonly Visibility[] = ['public']

/** The visibilities of repositories that a principal can read without a role in them. */
export function visibilitiesOpenTo({ kind }: Principal): readonly Visibility[] {
  if (kind === 'token' || kind === 'ssh-key') return openToUsers
  return kind === 'anonymous' ? openToEverybody : noVisibilities
}

/** The permissions that count where only the visibility of a repository lets a principal in: everybody may propose. */
const visitorPermissions: readonly Permission[] = [...presets.read, 'change:write']

/** Whether only the visibility of a repository lets a principal in, which may read its content and runs. */
export function isVisitor(principal: Principal, standing: Standing): boolean {
  return standing.role === undefined && roleOf(principal, standing) === 'read'
}

/** Whether a principal has the rights of the owner of a repository. */
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
  return isAdmin(principal) || principal.readsAll === true
}

/** Whether a principal can see a repository. */
export function maySee(principal: Principal, standing: Standing): boolean {
  return roleOf(principal, standing) !== undefined
}

/**
 * Throws `role_insufficient` for a permission that writes if the principal's role is `read`, and for one that is more than
 * the content and runs if only the visibility of the repository lets the principal in.
 */
export function requireRole(
  principal: Principal,
  standing: Standing,
  permission: Permission,
): void {
  if (mayInRole(principal, standing, permission)) return
  throw roleInsufficient({ ...standing, isVisitor: isVisitor(principal, standing) })
}

function mayInRole(principal: Principal, standing: Standing, permission: Permission): boolean {
  if (isVisitor(principal, standing)) return visitorPermissions.includes(permission)
  if (permission === 'change:write' || permission.endsWith(':read')) return true
  return roleOf(principal, standing) !== 'read'
}

/** The Problem of a caller whose role in a repository is `read`, or whom only its visibility lets in. */
export function roleInsufficient({
  isVisitor,
  visibility,
}: Pick<Standing, 'visibility'> & { isVisitor?: boolean | undefined }): Problem {
  const detail = isVisitor
    ? `You can read the content and runs of this repository, because it is ${visibility}; this requires a role in it.`
    : 'Your role in this repository is read; this requires write.'
  return new Problem('role_insufficient', detail)
}

/** Whether a principal holds a permission and its role in a repository suffices for it. */
export function mayUse(principal: Principal, standing: Standing, permission: Permission): boolean {
  const role = roleOf(principal, standing)
  return (
    role !== undefined && holds(principal, permission) && mayInRole(principal, standing, permission)
  )
}

/** Whether a principal is not limited to other repositories than this. */
export function isWithin(
  { repositories, namespaceId }: Principal,
  repository: Pick<Standing, 'id' | 'namespaceId'>,
): boolean {
  if (repositories === undefined || repositories.has(repository.id)) return true
  return namespaceId !== undefined && namespaceId === repository.namespaceId
}

/** Whether a principal has a role in a repository itself, and not as an admin or by the visibility. */
export function hasOwnRole(principal: Principal, standing: Standing): boolean {
  const { role } = standing
  return isWithin(principal, standing) && (role !== undefined || isOwner(principal, standing))
}

/** Throws `token_limited` if a principal is limited to some repositories. */
export function requireAllRepositories({ repositories }: Principal): void {
  if (repositories === undefined) return
  const detail =
    'This token is limited to some repositories, and this request concerns others, too.'
  throw new Problem('token_limited', detail)
}

/** Throws `token_limited` if a principal is limited to some refs: settings of a repository concern all of them. */
export function requireAllRefs({ refs }: Principal): void {
  if (refs === undefined) return
  const detail =
    'This token is limited to some refs. It can push to them, and change nothing else of a repository.'
  throw new Problem('token_limited', detail)
}

/** Throws `token_limited` if a principal is a run: it could start the next without end. */
export function requireNoRun({ username }: Principal): void {
  if (!isRunUsername(username)) return
  throw new Problem('token_limited', 'A run cannot start or repeat runs.')
}

/**
 * Whether a principal has all rights of its user for as long as the user wants: its token is neither limited nor
 * delegated.
 */
export function hasAllUserRights({ kind, repositories, refs, isDelegated }: Principal): boolean {
  return kind !== 'ssh-key' && repositories === undefined && refs === undefined && !isDelegated
}

/**
 * Throws `token_limited` if a principal is an SSH key, or a token that is limited or was delegated: keys and tokens
 * created by it would have more rights or last longer than itself.
 */
export function requireAllUserRights(principal: Principal): void {
  if (hasAllUserRights(principal)) return
  if (principal.kind === 'ssh-key') {
    const detail = 'You are logged in with an SSH key; keys and tokens are changed with a token.'
    throw new Problem('token_limited', detail)
  }
  const detail =
    'This token is limited or was delegated, so it cannot manage keys and other tokens. To create a token with a part ' +
    'of its rights: POST /tokens/delegate.'
  throw new Problem('token_limited', detail)
}

/** Throws `token_limited` if a principal may not change a ref, given by its full name. */
export function requireRef({ refs }: Pick<Principal, 'refs'>, ref: string): void {
  if (refs === undefined || refs.some((pattern) => matchesPattern(ref, pattern))) return
  const detail = `This token may not change "${ref}"; it may change ${refs.join(', ') || 'no ref'}.`
  throw new Problem('token_limited', detail)
}

/** The Problem of a token or key that was valid when its request began. */
export function credentialEnded(credential: 'token' | 'SSH key' | 'token or key'): Problem {
  const detail = `The ${credential} was deleted or has expired, or its user is disabled.`
  return new Problem('token_invalid', detail)
}
