import { Problem } from '../base/problem.ts'
import type { Permission } from './permissions.ts'
import type { Principal } from './principal.ts'

/** The standing of a principal in a repository: its owner, and whether the principal is a collaborator. */
export type Standing = { ownerUsername: string; isCollaborator: boolean }

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
  throw new Problem('permission_missing', `This requires the permission ${permission}.`)
}

/** Whether a principal passes the owner checks of a repository. */
export function mayOwn(principal: Principal, { ownerUsername }: Standing): boolean {
  return isAdmin(principal) || principal.username === ownerUsername
}

/** Whether a principal can see every repository. */
export function maySeeAll(principal: Principal): boolean {
  return isAdmin(principal) || principal.kind === 'anonymous'
}

/** Whether a principal can see a repository. */
export function maySee(principal: Principal, standing: Standing): boolean {
  return maySeeAll(principal) || mayOwn(principal, standing) || standing.isCollaborator
}
