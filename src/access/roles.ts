/** The roles of collaborators; each includes the rights of the preceding roles. The owner has all rights. */
export const roles = ['read', 'write', 'maintain', 'admin'] as const

export type Role = (typeof roles)[number]

export const defaultRole: Role = 'write'

/** Whether a role has the rights of another role. */
export function includesRole(role: Role, other: Role): boolean {
  return roles.indexOf(role) >= roles.indexOf(other)
}
