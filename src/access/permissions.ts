/** All permissions. They are independent of each other; `admin` implies all. */
export const permissions = [
  'repo:read',
  'repo:write',
  'repo:delete',
  'collaborator:read',
  'collaborator:write',
  'workflow:trigger',
  'workflow:read',
  'status:write',
  'change:write',
  'secrets:read',
  'secrets:write',
  'webhook:read',
  'webhook:write',
  'runner',
  'metrics:read',
  'admin',
] as const

export type Permission = (typeof permissions)[number]

/** Names that may stand for several permissions in a request. */
export const presets = {
  read: ['repo:read', 'workflow:read'],
  write: ['repo:read', 'repo:write', 'workflow:read', 'workflow:trigger', 'change:write'],
  maintain: [
    'repo:read',
    'repo:write',
    'workflow:read',
    'workflow:trigger',
    'status:write',
    'change:write',
    'collaborator:read',
    'collaborator:write',
    'secrets:read',
    'secrets:write',
    'webhook:read',
    'webhook:write',
  ],
  ci: ['repo:read', 'workflow:read', 'workflow:trigger', 'status:write'],
  everything: permissions.filter((permission) => permission !== 'admin'),
} satisfies Record<string, Permission[]>

export type Preset = keyof typeof presets

/** The permissions that some names of permissions and presets stand for. */
export function spellOut(names: readonly (Permission | Preset)[]): Permission[] {
  return [...new Set(names.flatMap((name) => (isPermission(name) ? name : presets[name])))]
}

/** The permissions of a new token when none are requested. */
export const defaultPermissions: Permission[] = ['repo:read', 'repo:write']

export function isPermission(text: string): text is Permission {
  return permissions.some((permission) => permission === text)
}
