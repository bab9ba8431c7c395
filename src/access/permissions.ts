/** All permissions. They are independent of each other; `admin` implies all. */
export const permissions = [
  'repo:read',
  'repo:write',
  'repo:delete',
  'collaborator:read',
  'collaborator:write',
  'workflow:trigger',
  'workflow:read',
  'secrets:read',
  'secrets:write',
  'webhook:read',
  'webhook:write',
  'runner',
  'metrics:read',
  'admin',
] as const

export type Permission = (typeof permissions)[number]

/** The permissions of a new token when none are requested. */
export const defaultPermissions: Permission[] = ['repo:read', 'repo:write']

export function isPermission(text: string): text is Permission {
  return permissions.some((permission) => permission === text)
}
