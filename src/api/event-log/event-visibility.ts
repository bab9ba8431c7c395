import {
  holds,
  isAdmin,
  isVisitor,
  isWithin,
  mayMaintain,
  mayOwn,
  mayUse,
  type Standing,
} from '#access/may.ts'
import type { Permission } from '#access/permissions.ts'
import type { Principal } from '#access/principal.ts'
import { namespaceIn } from '#base/repository-name.ts'
import { type Event, eventKinds } from '#events/events.ts'

export type VisibleEventKind = Event['kind']

/**
 * The audience of a kind of event, besides admins: users who can see the repository, maintain it, or have the rights of
 * its owner, with a permission; the user that the event is about; or only admins.
 */
type Audience =
  | { of: 'member' | 'maintainer' | 'owner'; permission: Permission }
  | { of: 'username' }
  | { of: 'admin' }

const member = (permission: Permission): Audience => ({ of: 'member', permission })
const maintainer = (permission: Permission): Audience => ({ of: 'maintainer', permission })
const owner = (permission: Permission): Audience => ({ of: 'owner', permission })

/** The audience of each kind of event: exactly the callers to whom the API would show the same facts. */
export const audiences: Record<VisibleEventKind, Audience> = {
  push: member('repo:read'),
  'push.leak_allowed': member('repo:read'),
  'repository.created': member('repo:read'),
  'repository.imported': member('repo:read'),
  'repository.renamed': member('repo:read'),
  'repository.leak_guard': member('repo:read'),
  'repository.run_tokens': member('repo:read'),
  'repository.visibility': member('repo:read'),
  'repository.description': member('repo:read'),
  'repository.transferred': member('repo:read'),
  'repository.default_branch': member('repo:read'),
  'repository.deleted': member('repo:read'),
  'repository.restored': member('repo:read'),
  'repository.purged': member('repo:read'),
  'protection.added': member('repo:read'),
  'protection.changed': member('repo:read'),
  'protection.removed': member('repo:read'),
  'collaborator.added': member('collaborator:read'),
  'collaborator.changed': member('collaborator:read'),
  'collaborator.removed': member('collaborator:read'),
  'namespace.created': { of: 'admin' },
  'namespace.updated': { of: 'admin' },
  'namespace.limited': { of: 'admin' },
  'namespace.deleted': { of: 'admin' },
  'namespace.member_added': { of: 'admin' },
  'namespace.member_removed': { of: 'admin' },
  'secret.saved': member('secrets:read'),
  'secret.deleted': member('secrets:read'),
  'lfs_lock.created': member('repo:read'),
  'lfs_lock.deleted': member('repo:read'),
  'status.reported': member('workflow:read'),
  'change.opened': member('repo:read'),
  'change.version_added': member('repo:read'),
  'change.updated': member('repo:read'),
  'change.commented': member('repo:read'),
  'change.comment_updated': member('repo:read'),
  'change.verdict_given': member('repo:read'),
  'change.landed': member('repo:read'),
  'change.queued': member('repo:read'),
  'change.unqueued': member('workflow:read'),
  'queue.trial_started': member('repo:read'),
  workflow: member('workflow:read'),
  'webhook.created': maintainer('webhook:read'),
  'webhook.updated': maintainer('webhook:read'),
  'webhook.disabled': maintainer('webhook:read'),
  'webhook.deleted': maintainer('webhook:read'),
  'user.updated': { of: 'admin' },
  'user.deleted': { of: 'admin' },
  'token.created': { of: 'admin' },
  'token.deleted': { of: 'admin' },
  'ssh_key.added': { of: 'username' },
  'ssh_key.deleted': { of: 'username' },
  'trust_rule.created': owner('collaborator:read'),
  'trust_rule.deleted': owner('collaborator:read'),
}

// The former owner of a deleted repository sees these.
const deletionKinds: VisibleEventKind[] = ['repository.deleted', 'repository.purged']

/** The kinds whose events are visible without a repository, or after its deletion. */
export const kindsWithoutRepository: VisibleEventKind[] = [
  ...deletionKinds,
  ...eventKinds.filter((kind) => audiences[kind].of === 'username'),
]

/** The permissions that make any event of a repository visible. */
export const repositoryPermissions: Permission[] = [
  ...new Set(
    Object.values(audiences).flatMap((audience) =>
      'permission' in audience ? [audience.permission] : [],
    ),
  ),
]

/** Returns the kinds of which a principal may see events. */
export function visibleKinds(
  principal: Principal,
  kinds: readonly VisibleEventKind[],
): VisibleEventKind[] {
  if (isAdmin(principal)) return [...kinds]
  return kinds.filter((kind) => {
    const audience = audiences[kind]
    return 'permission' in audience
      ? holds(principal, audience.permission)
      : audience.of === 'username'
  })
}

/** The properties of an event that decide who may see it. */
type AudienceFacts = {
  kind: VisibleEventKind
  repositoryId: string | null
  data: { username?: unknown; ownerUsername?: unknown }
}

/**
 * Whether a principal may see an event; `standing` is the principal's standing in the event's repository, undefined
 * without a repository.
 */
export function maySeeEvent(
  principal: Principal,
  { kind, repositoryId, data }: AudienceFacts,
  standing: Standing | undefined,
): boolean {
  if (isAdmin(principal)) return true
  const repository =
    standing ?? (repositoryId ? { id: repositoryId, namespaceId: null } : undefined)
  if (principal.repositories && !(repository && isWithin(principal, repository))) return false
  const audience = audiences[kind]
  if (audience.of === 'admin') return false
  if (audience.of === 'username') return data.username === principal.username
  if (!holds(principal, audience.permission)) return false
  // Only the former owner sees the deletion; to others the repository must seem never to have existed.
  if (!standing) return deletionKinds.includes(kind) && data.ownerUsername === principal.username
  if (audience.of === 'owner') return mayOwn(principal, standing)
  return audience.of === 'maintainer'
    ? mayMaintain(principal, standing)
    : mayUse(principal, standing, audience.permission)
}

/**
 * The data of an event that a principal may see. The source of an import may be a host that only those with a role know, and
 * a name that the repository had in another namespace is of one that may be hidden. `currentName` is the repository's.
 */
export function visibleData(
  principal: Principal,
  { kind, data }: { kind: VisibleEventKind; data: Record<string, unknown> },
  { standing, currentName }: { standing: Standing | undefined; currentName: string | null },
): Record<string, unknown> {
  if (!standing || !isVisitor(principal, standing)) return data
  const namespace = namespaceIn(currentName ?? '')?.toLowerCase()
  const isHidden = ([key, value]: [string, unknown]) => {
    if (kind === 'repository.imported' && key === 'source') return true
    const isName = nameKeys.has(key) && (key !== 'name' || kind.startsWith('repository.'))
    const at = isName && typeof value === 'string' ? namespaceIn(value)?.toLowerCase() : undefined
    return at !== undefined && at !== namespace
  }
  const hidden = Object.entries(data).filter(isHidden)
  return { ...data, ...Object.fromEntries(hidden.map(([key]) => [key, ''])) }
}

const nameKeys = new Set(['name', 'formerName', 'repositoryName'])
