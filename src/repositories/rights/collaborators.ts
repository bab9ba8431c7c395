import type { Principal } from '#access/principal.ts'
import { defaultRole, includesRole, type Role } from '#access/roles.ts'
import type { Clock } from '#base/clock.ts'
import { Problem } from '#base/problem.ts'
import { namespaceIn } from '#base/repository-name.ts'
import type { Database } from '#database/database.ts'
import type { Db } from '#database/schema.ts'
import type { Actor, Event, Publish } from '#events/events.ts'
import {
  deleteCollaborations,
  deleteCollaborator,
  insertCollaborator,
  listCollaborators,
  lockRole,
  updateRole,
} from '../collaborator-store.ts'
import { deleteMemberships, findNamespace, listMembers } from '../namespace-store.ts'
import { memberRemoved, roleInNamespace } from '../place-name.ts'
import type { Repository } from '../repositories.ts'
import { isStorable } from '../role-store.ts'

/** Collaborators: the usernames that can see a repository besides its owner, with their roles. */
export type Collaborators = {
  list: (principal: Principal, repository: Repository) => Promise<CollaboratorList>
  /**
   * Adds a username, even if no token or key has it yet, or changes its role. Without a role, a new collaborator gets
   * `write` and another one keeps its role. Throws `role_insufficient` for a role above the principal's own.
   */
  add: (
    principal: Principal,
    repository: Repository,
    wanted: { username: string; role?: Role | undefined },
  ) => Promise<CollaboratorList & { unknown?: boolean }>
  /** Removes a username. A running push of theirs is refused when its hook runs. */
  remove: (principal: Principal, repository: Repository, username: string) => Promise<void>
  /** Removes a user who is being deleted from all repositories and namespaces; returns the events, for its caller to publish. */
  removeUser: (tx: Db, actor: Actor, username: string) => Promise<Event[]>
}

type CollaboratorList = {
  repoName: string
  /** Oldest first. */
  collaborators: string[]
  /** By username. */
  roles: Record<string, Role>
  /** Those that no token or key has. A token for some repositories does not learn who else there is. */
  unknownUsernames: string[]
  /** The members of its namespace; undefined for those who do not see them there. */
  inherited?: { namespace: string; member: string; role: Role }[]
}

type Dependencies = {
  db: Database
  publish: Publish
  clock: Clock
  /** Those of some usernames that a token or key has. */
  usernamesAmong: (usernames: string[]) => Promise<string[]>
}

export function createCollaborators(dependencies: Dependencies): Collaborators {
  const { db, publish, clock, usernamesAmong } = dependencies

  async function list(principal: Principal, repository: Repository) {
    const rows = await listCollaborators(db, repository.id)
    const collaborators = rows.map(({ username }) => username)
    const mayLearn = principal.repositories === undefined && rows.length > 0
    const known = new Set(mayLearn ? await usernamesAmong(collaborators) : collaborators)
    const inherited = await listInherited(principal, repository)
    return {
      repoName: repository.name,
      collaborators,
      unknownUsernames: collaborators.filter((username) => !known.has(username)),
      roles: Object.fromEntries(rows.map(({ username, role }) => [username, role])),
      ...(inherited && { inherited }),
    }
  }

  async function listInherited(
    principal: Principal,
    { name, namespaceId }: Repository,
  ): Promise<CollaboratorList['inherited']> {
    const namespace = namespaceIn(name)
    if (namespace === undefined || namespaceId === null || principal.repositories) return undefined
    const found = await findNamespace(db, namespace, principal.username)
    if (!found || roleInNamespace(principal, found) === undefined) return undefined
    const members = await listMembers(db, namespaceId)
    return members.map(({ member, role }) => ({ namespace, member, role }))
  }

  async function change(
    tx: Db,
    { principal, repository, username, role }: Change,
    formerRole: Role,
  ): Promise<void> {
    requireRoleOf(repository, formerRole)
    const repositoryId = repository.id
    await updateRole(tx, { repositoryId, username, role })
    const data = { username, role, formerRole }
    const about = { actor: principal, repositoryId, data }
    await publish(tx, clock.now(), [{ kind: 'collaborator.changed', ...about }])
  }

  return {
    list,

    async add(principal, repository, { username, role }) {
      const repositoryId = repository.id
      requireRoleOf(repository, role ?? defaultRole)
      requireGrant(repository)
      await db.transaction().execute(async (tx) => {
        const added = { username, role: role ?? defaultRole }
        const isNew = await insertCollaborator(tx, {
          ...added,
          repositoryId,
          createdAt: clock.now(),
        })
        if (isNew) {
          const about = { actor: principal, repositoryId, data: added }
          await publish(tx, clock.now(), [{ kind: 'collaborator.added', ...about }])
          return
        }
        const former = await lockRole(tx, repositoryId, username)
        if (former === undefined || role === undefined || role === former) return
        await change(tx, { principal, repository, username, role }, former)
      })
      const all = await list(principal, repository)
      return { ...all, ...(all.unknownUsernames.includes(username) && { unknown: true }) }
    },

    async remove(principal, repository, username) {
      const repositoryId = repository.id
      await db.transaction().execute(async (tx) => {
        const former = isStorable(username) ? await lockRole(tx, repositoryId, username) : undefined
        // Everybody who may change collaborators may leave.
        if (former && username !== principal.username) requireRoleOf(repository, former)
        if (!former || !(await deleteCollaborator(tx, repositoryId, username))) {
          throw new Problem('collaborator_not_found', `"${username}" is not a collaborator.`)
        }
        await publish(tx, clock.now(), [removed(principal, repositoryId, username)])
      })
    },

    async removeUser(tx, actor, username) {
      const ids = await deleteCollaborations(tx, username)
      const namespaces = await deleteMemberships(tx, username)
      return [
        ...ids.map((repositoryId) => removed(actor, repositoryId, username)),
        ...namespaces.map((name) => memberRemoved(actor, name, username)),
      ]
    },
  }
}

type Change = { principal: Principal; repository: Repository; username: string; role: Role }

function removed(actor: Actor, repositoryId: string, username: string) {
  return { kind: 'collaborator.removed', actor, repositoryId, data: { username } } as const
}

/** Throws `role_insufficient` for a role above one's own: what a collaborator gives or takes, it must have. */
function requireRoleOf({ role: own }: Repository, role: Role): void {
  if (includesRole(own, role)) return
  throw new Problem(
    'role_insufficient',
    `Your role in this repository is ${own}; you cannot give or take the role ${role}.`,
  )
}

/**
 * Throws `role_insufficient` in a repository of a namespace for less than the role `maintain`: members could otherwise keep
 * their access when they are removed from the namespace, or leave a group.
 */
function requireGrant({ namespaceId, role }: Repository): void {
  if (namespaceId === null || includesRole(role, 'maintain')) return
  throw new Problem(
    'role_insufficient',
    `Your role in this repository is ${role}; in a namespace, adding collaborators takes the role maintain.`,
  )
}
