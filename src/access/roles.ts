/** The roles of collaborators, each with the rights of those before it. The owner has all rights. */
export const roles = ['read', 'write', 'maintain', 'admin'] as const

export type Role = (typeof roles)[number]

export const defaultRole: Role = 'write'

/** Whether a role has the rights of another one. */
export function includesRole(role: Role, other: Role): boolean {
  return roles.indexOf(role) >= roles.indexOf(other)
}
