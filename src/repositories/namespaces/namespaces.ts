import { isAdmin, requireAllRefs, requireAllRepositories } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import { includesRole, type Role } from '#access/roles.ts'
import type { Clock } from '#base/clock.ts'
import { newId } from '#base/ids.ts'
import type { PageRequest } from '#base/list-all.ts'
import { Problem } from '#base/problem.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import type { Db } from '#database/schema.ts'
import type { Actor, Event, Publish } from '#events/events.ts'
import { claimName, keepFormerName } from '../claim-name.ts'
import { hasNamesOfOthers } from '../former-name-store.ts'
import { deleteFailedImports } from '../import-store.ts'
import {
  findNamespaceLimits,
  type NamespaceLimits,
  saveNamespaceLimits,
} from '../namespace-limit-store.ts'
import {
  deleteMember,
  deleteNamespace,
  insertNamespace,
  type JoinedNamespace,
  listAdministered,
  listMembers,
  listNamespaces,
  listRepositoriesOf,
  lockNamespace,
  updateDeletedName,
  updateNamespaceName,
  upsertMember,
} from '../namespace-store.ts'
import {
  holdPlace,
  memberRemoved,
  namespaceGone,
  requireNamespace,
  roleInNamespace,
} from '../place-name.ts'
import { asTaken } from '../repository-errors.ts'
import { countNames, isNameTaken, updateName, viewerOf } from '../repository-store.ts'
import { groupsOf, isStorable } from '../role-store.ts'
import { deleteWebhooksOf } from '../scope-store.ts'
import { type Member, markUnknown, type UsernamesAmong } from './unknown-members.ts'

/** Namespaces: names before those of repositories, with members who have roles in all of these. */
export type Namespaces = {
  /** Those of which a principal is a member or can see a repository, oldest first. */
  list: (principal: Principal, page: PageRequest) => Promise<Namespace[]>
  /**
   * Opens a namespace for those who have a role in it, or without one for all who see it. Throws `namespace_not_found`,
   * `role_insufficient` and `token_limited`.
   */
  open: (principal: Principal, name: string, role?: Role) => Promise<Namespace>
  /** Throws `permission_missing` unless a principal may create namespaces. */
  requireCreator: (principal: Principal) => Promise<void>
  /** Creates a namespace whose first member is its creator. Throws `namespace_name_taken`. */
  create: (principal: Principal, name: string) => Promise<Namespace>
  /**
   * Renames a namespace with its repositories, whose former names lead to them, and sets its limits, as an admin of the
   * server: all of it or nothing. Throws `permission_missing` and `namespace_name_taken`.
   */
  update: (
    principal: Principal,
    namespace: Namespace,
    changes: Partial<NamespaceLimits & { name: string }>,
  ) => Promise<Namespace>
  /** Throws `namespace_not_empty`. */
  remove: (principal: Principal, namespace: Namespace) => Promise<void>
  listMembers: (namespace: Namespace) => Promise<Member[]>
  setMember: (
    principal: Principal,
    namespace: Namespace,
    wanted: Pick<Member, 'member' | 'role'>,
  ) => Promise<Member>
  /** Removes a member, whose access by it ends at once. Throws `namespace_member_not_found`. */
  removeMember: (principal: Principal, namespace: Namespace, member: string) => Promise<void>
  /** Keeps a namespace until the transaction ends, before something is added to it. Throws `namespace_not_found`. */
  hold: (tx: Db, namespace: Pick<Namespace, 'id' | 'name'>) => Promise<void>
  /** Which of some namespaces, by their ids, a user has the role `admin` in. */
  administeredBy: (username: string, ids: readonly string[]) => Promise<ReadonlySet<string>>
}

/** A namespace as its caller sees it; `role` is that of the caller, null when it is no member, who does not see limits. */
export type Namespace = NamespaceLimits & {
  id: string
  name: string
  createdAt: number
  role: Role | null
}

type Dependencies = {
  db: Database
  publish: Publish
  clock: Clock
  settings: Pick<PlainSettings, 'namespaceCreators'>
  usernamesAmong: UsernamesAmong
  /** How many users have a username, without regard to case. */
  countUsersLike: (tx: Db, username: string) => Promise<number>
}

type RepositoryOf = Awaited<ReturnType<typeof listRepositoriesOf>>[number]

const maxNamed = 10
const unlimited: NamespaceLimits = { maxRepositories: null, maxBytes: null }

export function createNamespaces(dependencies: Dependencies): Namespaces {
  const { db, publish, clock, settings, countUsersLike, usernamesAmong } = dependencies

  /** Changes a namespace, which keeps its name meanwhile. */
  async function change({ id, name }: Namespace, work: (tx: Db) => Promise<void>): Promise<void> {
    await db.transaction().execute(async (tx) => {
      if (!(await lockNamespace(tx, { id, name }, 'update'))) throw namespaceGone(name)
      await work(tx)
    })
  }

  /** Throws `namespace_name_taken` for the name of another user, as whose the repositories would appear. */
  async function requireNoOtherUser(tx: Db, principal: Principal, name: string): Promise<void> {
    if (isAdmin(principal)) return
    const own = principal.username.toLowerCase() === name.toLowerCase() ? 1 : 0
    if ((await countUsersLike(tx, name)) <= own) return
    const detail = `"${name}" is the name of a user; only that user and admins can give it to a namespace.`
    throw new Problem('namespace_name_taken', detail)
  }

  /** Throws `namespace_name_taken` while former names in a namespace lead to repositories of others. */
  async function requireNoOtherNames(
    tx: Db,
    principal: Principal,
    { id, name }: Pick<Namespace, 'id' | 'name'>,
  ): Promise<void> {
    if (isAdmin(principal)) return
    const { username } = principal
    if (!(await hasNamesOfOthers(tx, { id, name }, { username, now: clock.now() }))) return
    const detail = `Repositories of others were in "${name}" in the last 90 days, and their old names lead to them; for this time only admins of the server can give this name to a namespace.`
    throw new Problem('namespace_name_taken', detail)
  }

  /** Renames the repositories of a namespace, in its transaction; returns their events. */
  async function renameRepositories(
    tx: Db,
    principal: Principal,
    { id, name }: Namespace,
    { newName, repositories }: { newName: string; repositories: RepositoryOf[] },
  ): Promise<Event[]> {
    const now = clock.now()
    const events: Event[] = []
    for (const repository of repositories) {
      const { id: repositoryId, name: formerName, state } = repository
      const to = newName + formerName.slice(name.length)
      if (state === 'importing') throw importing(formerName)
      if (state !== 'ready') {
        await updateDeletedName(tx, repositoryId, to)
        continue
      }
      await updateName(tx, repositoryId, { name: to, namespaceId: id })
      await claimName(tx, principal, { name: to, repositoryId, now })
      if (newName.toLowerCase() !== name.toLowerCase())
        await keepFormerName(tx, { name: formerName, repositoryId, now }, 'namespace')
      await deleteFailedImports(tx, to)
      const data = { name: to, formerName }
      events.push({ kind: 'repository.renamed', actor: principal, repositoryId, data })
    }
    return events
  }

  /** Renames a namespace; returns the events of that. */
  async function rename(
    tx: Db,
    principal: Principal,
    namespace: Namespace,
    newName: string,
  ): Promise<Event[]> {
    const { id, name } = namespace
    const isOtherCase = newName.toLowerCase() === name.toLowerCase()
    if (!isOtherCase && (await isNameTaken(tx, newName))) throw namespaceTaken(newName)
    if (!isOtherCase) await requireNoOtherUser(tx, principal, newName)
    // First, as pushes lock their repository and then refer to its namespace.
    const repositories = await listRepositoriesOf(tx, id)
    await updateNamespaceName(tx, id, newName).catch(asTaken(newName, namespaceTaken))
    if (!isOtherCase) await requireNoOtherNames(tx, principal, { id, name: newName })
    await claimName(tx, principal, { name: newName, repositoryId: id, now: clock.now() })
    await deleteFailedImports(tx, newName)
    const renamed = await renameRepositories(tx, principal, namespace, { newName, repositories })
    const about = { actor: principal, repositoryId: null }
    const data = { namespace: newName, formerName: name }
    return [{ kind: 'namespace.updated', ...about, data }, ...renamed]
  }

  /** Sets limits that are given; returns all, and the event. */
  async function saveLimits(
    tx: Db,
    principal: Principal,
    { id, name }: Namespace,
    { maxRepositories, maxBytes }: Partial<NamespaceLimits>,
  ): Promise<{ limits: NamespaceLimits; event: Event }> {
    const former = await findNamespaceLimits(tx, id)
    const limits = {
      maxRepositories: maxRepositories === undefined ? former.maxRepositories : maxRepositories,
      maxBytes: maxBytes === undefined ? former.maxBytes : maxBytes,
    }
    await saveNamespaceLimits(tx, { namespaceId: id, ...limits })
    const about = { actor: principal, repositoryId: null }
    const data = { namespace: name, ...limits }
    return { limits, event: { kind: 'namespace.limited', ...about, data } }
  }

  async function isCreator(principal: Principal): Promise<boolean> {
    if (isAdmin(principal)) return true
    const { username } = principal
    const { namespaceCreators = [] } = settings
    if (namespaceCreators.includes(username)) return true
    if (!namespaceCreators.some((creator) => creator.startsWith('group:'))) return false
    const groups = await groupsOf(db, username)
    return groups.some((group) => namespaceCreators.includes(`group:${group}`))
  }

  return {
    async list(principal, page) {
      const who = { viewer: viewerOf(principal), username: principal.username }
      const rows = await listNamespaces(db, who, page)
      return rows.map((row) => toNamespace(principal, row))
    },

    async open(principal, name, role) {
      requireAllRepositories(principal)
      const found = toNamespace(principal, await requireNamespace(db, principal, name))
      if (role === undefined) return found
      if (role === 'admin') requireAllRefs(principal)
      if (found.role !== null && includesRole(found.role, role)) return found
      throw roleMissing(found, role)
    },

    async requireCreator(principal) {
      requireAllRepositories(principal)
      requireAllRefs(principal)
      if (await isCreator(principal)) return
      const detail = 'Only admins, and users that SVC_NAMESPACE_CREATORS names, create namespaces.'
      throw new Problem('permission_missing', detail)
    },

    async create(principal, name) {
      if (await isNameTaken(db, name)) throw namespaceTaken(name)
      const now = clock.now()
      const row = { id: newId(now), name, nameKey: name.toLowerCase(), createdAt: now }
      const first = { member: principal.username, role: 'admin', createdAt: now } as const
      await db.transaction().execute(async (tx) => {
        await requireNoOtherUser(tx, principal, name)
        if (!(await insertNamespace(tx, row))) throw namespaceTaken(name)
        await requireNoOtherNames(tx, principal, row)
        await upsertMember(tx, { ...first, namespaceId: row.id })
        // No repository has the id, so a former name of any leads nowhere from now on.
        await claimName(tx, principal, { name, repositoryId: row.id, now })
        await deleteFailedImports(tx, name)
        const about = { actor: principal, repositoryId: null }
        await publish(tx, now, [
          { kind: 'namespace.created', ...about, data: { namespace: name } },
          memberAdded(principal, name, first),
        ])
        if ((await countNames(tx, name)) > 1) throw namespaceTaken(name)
      })
      return { id: row.id, name, createdAt: now, role: 'admin', ...unlimited }
    },

    async update(principal, namespace, { name: newName = namespace.name, ...limits }) {
      const isLimited = Object.keys(limits).length > 0
      if (isLimited && !isAdmin(principal)) {
        const detail = 'Only admins of the server set limits of namespaces.'
        throw new Problem('permission_missing', detail)
      }
      const renamed = { ...namespace, name: newName }
      let saved: Partial<NamespaceLimits> = {}
      await change(namespace, async (tx) => {
        const isRenamed = newName !== namespace.name
        const events = isRenamed ? await rename(tx, principal, namespace, newName) : []
        if (isLimited) {
          const { limits: all, event } = await saveLimits(tx, principal, renamed, limits)
          saved = all
          events.push(event)
        }
        await publish(tx, clock.now(), events)
        // Last: publishing serializes those who take a name at the same time.
        if (isRenamed && (await countNames(tx, newName)) > 1) throw namespaceTaken(newName)
      })
      return { ...renamed, ...saved }
    },

    async remove(principal, namespace) {
      const { id, name } = namespace
      await change(namespace, async (tx) => {
        const rest = await listRepositoriesOf(tx, id)
        if (rest.length > 0) throw notEmpty(name, rest)
        const about = { actor: principal, repositoryId: null, data: { namespace: name } }
        await deleteNamespace(tx, id)
        await publish(tx, clock.now(), [{ kind: 'namespace.deleted', ...about }])
        await deleteWebhooksOf(tx, id)
      })
    },

    hold: holdPlace,
    administeredBy: (username, ids) => listAdministered(db, username, ids),
    listMembers: async ({ id }) => markUnknown(db, await listMembers(db, id), usernamesAmong),

    async setMember(principal, namespace, { member, role }) {
      const { id: namespaceId, name } = namespace
      let saved = { member, role, createdAt: clock.now() }
      await change(namespace, async (tx) => {
        const known = (await listMembers(tx, namespaceId)).find((one) => one.member === member)
        saved = { ...saved, ...known, role }
        if (known?.role === role) return
        await upsertMember(tx, { namespaceId, ...saved })
        await publish(tx, clock.now(), [memberAdded(principal, name, saved)])
      })
      const [shown] = await markUnknown(db, [saved], usernamesAmong)
      // One for each row.
      return shown as Member
    },

    async removeMember(principal, namespace, member) {
      // Everybody may leave.
      const needed: Role = principal.username === member ? 'read' : 'admin'
      if (namespace.role === null || !includesRole(namespace.role, needed))
        throw roleMissing(namespace, needed)
      await change(namespace, async (tx) => {
        if (!isStorable(member) || !(await deleteMember(tx, namespace.id, member))) {
          const detail = `"${member}" is not a member of the namespace "${namespace.name}".`
          throw new Problem('namespace_member_not_found', detail)
        }
        await publish(tx, clock.now(), [memberRemoved(principal, namespace.name, member)])
      })
    },
  }
}

function roleMissing({ name, role }: Namespace, needed: Role): Problem {
  const detail =
    role === null
      ? `You are not a member of the namespace "${name}".`
      : `Your role in the namespace "${name}" is ${role}; this requires ${needed}.`
  return new Problem('role_insufficient', detail)
}

function toNamespace(principal: Principal, row: JoinedNamespace): Namespace {
  const { id, name, createdAt, maxRepositories, maxBytes } = row
  const role = roleInNamespace(principal, row) ?? null
  return {
    id,
    name,
    createdAt,
    role,
    ...(role === null ? unlimited : { maxRepositories, maxBytes }),
  }
}

function memberAdded(
  actor: Actor,
  namespace: string,
  { member, role }: Pick<Member, 'member' | 'role'>,
) {
  const data = { namespace, member, role }
  return { kind: 'namespace.member_added', actor, repositoryId: null, data } as const
}

function namespaceTaken(name: string): Problem {
  return new Problem(
    'namespace_name_taken',
    `"${name}" is the name of a namespace or a repository, in this or another case; choose another name.`,
  )
}

function importing(name: string): Problem {
  const detail = `"${name}" is still being imported; rename the namespace when it is there.`
  return new Problem('repository_importing', detail)
}

function notEmpty(name: string, rest: RepositoryOf[]): Problem {
  const named = rest
    .slice(0, maxNamed)
    .map((one) => (/^(ready|importing)$/.test(one.state) ? one.name : `${one.name} (deleted)`))
  const more = rest.length > maxNamed ? ', and more' : ''
  return new Problem(
    'namespace_not_empty',
    `"${name}" has ${named.join(', ')}${more}. Move or delete them first, and purge the deleted ones.`,
  )
}
