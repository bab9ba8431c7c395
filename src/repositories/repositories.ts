import {
  hasOwnRole,
  isVisitor,
  mayMaintain,
  mayOwn,
  maySee,
  requireAllRefs,
  requirePermission,
  requireRole,
  roleOf,
  type Standing,
} from '#access/may.ts'
import { isRepositoryName } from '#access/names.ts'
import type { Permission } from '#access/permissions.ts'
import { anonymousFrom, type Principal } from '#access/principal.ts'
import type { Role } from '#access/roles.ts'
import type { PageRequest } from '#base/list-all.ts'
import { Problem } from '#base/problem.ts'
import { apiPathOf } from '#base/repository-name.ts'
import type { Db, ProtectionRow } from '#database/schema.ts'
import type { DeletedRepositories } from './deleted-repositories.ts'
import {
  describeRepository,
  type ListedRepository,
  newRepository,
  type RepositoryDescription,
  type RepositoryFields,
  toListed,
} from './describe-repository.ts'
import type { Directories } from './directories/directories.ts'
import { findByFormerName } from './former-name-store.ts'
import { findFailedImport } from './import-store.ts'
import { requireListedNamespace } from './place-name.ts'
import { protectedBranchesIn } from './protection-rules.ts'
import { listProtectionsBetween, listProtectionsOfAll } from './protection-store.ts'
import { type Reconciled, reconcileDirectories, removeUnknown } from './reconcile-directories.ts'
import { repositoryDeleted, repositoryGone, repositoryRenamed } from './repository-errors.ts'
import {
  createLifeCycle,
  type LifeCycle,
  type LifeCycleDependencies,
} from './repository-life-cycle.ts'
import {
  type ListedRow,
  listRepositories,
  listRepositoriesByPush,
} from './repository-list-store.ts'
import {
  findRepositoriesById,
  findRepository,
  hasPublicRepository,
  listNames,
  listNamesOwnedBy,
  type VisibleRow,
  viewerOf,
} from './repository-store.ts'
import type { Store } from './store/store.ts'

/** Repositories: access to them, and their life from creation to deletion. */
export type Repositories = LifeCycle & {
  /**
   * Opens a repository by name for an action, if the principal may. Throws, in this order, `permission_missing`,
   * `repository_not_found` (also when it must not be seen), `role_insufficient`, `token_limited`, `owner_required` or
   * `repository_importing`.
   */
  open: Open<string>
  /**
   * Like `open` without a need. A former name leads to the repository, too, since clones keep their addresses. A public
   * repository can be read by all, also by a token that is limited to others.
   */
  openForGit: Open<string>
  /** Opens a repository to describe or remove it, even one whose import is running or has failed. */
  openInAnyState: (
    principal: Principal,
    name: string,
    permission: Permission,
  ) => Promise<Repository>
  /**
   * Opens a repository again that was open before, by id, with its present state and the principal's present permissions.
   */
  reopen: Open<Pick<Repository, 'id'>>
  /** The same, with the directory of this server as it is. */
  recheck: Open<Pick<Repository, 'id'>>
  describe: (repository: RepositoryFields) => Promise<RepositoryDescription>
  /** The repositories that a principal can see, oldest first. Throws `namespace_not_found`. */
  list: (principal: Principal, page: ListPage) => Promise<ListedRepository[]>
  /** The same by their last push, newest first; `filter` is a part of the name or description. */
  listByPush: (
    principal: Principal,
    page: { filter: string | undefined; cursor: string | undefined; limit: number },
  ) => Promise<ListedRepository[]>
  /** The ids of repositories that a principal can see, by their names. Throws `repository_not_found`. */
  idsOf: (principal: Principal, names: readonly string[]) => Promise<string[]>
  /** The id of the repository that a name leads to, to whomever it is visible; undefined for none. */
  idNamed: (name: string) => Promise<string | undefined>
  /** Whether a user may do what takes the owner of repositories, by their ids; without deleted ones. */
  ownedBy: (username: string, ids: readonly string[]) => Promise<ReadonlyMap<string, boolean>>
  /** Whether a principal has a role in a repository itself, and not as an admin or by its visibility. */
  hasOwnRole: (principal: Principal, id: string) => Promise<boolean>
  /** The role of a user in a repository, as of a token without the permission `admin`. */
  roleOfUser: (username: string, id: string) => Promise<Role | undefined>
  /** The names of those of some repositories that a principal can see, by their ids. */
  namesOf: (principal: Principal, ids: readonly string[]) => Promise<ReadonlyMap<string, string>>
  /** Whether any repository is public. */
  hasPublic: () => Promise<boolean>
  /** The names of the oldest repositories that a user owns, also of deleted ones. */
  namesOwnedBy: (tx: Db, username: string, limit: number) => Promise<string[]>
  /** Makes directories match rows: see `reconcileDirectories`, or for a shared store `removeUnknown`. */
  reconcile: () => Promise<Reconciled>
}

type Open<By> = (
  principal: Principal,
  by: By,
  permission: Permission,
  need?: Need,
) => Promise<Repository>

/** A page of a list; of all, or of those in a namespace. */
type ListPage = PageRequest & { namespace?: string | undefined }

declare const opened: unique symbol

/** A repository that was opened with authorization: only functions of `Repositories` create one. */
export type Repository = RepositoryFields & {
  readonly [opened]: true
  /** The prune epoch in which its objects are looked for: see `Store.at`. */
  readonly pruneEpoch: number
  /** Whether the principal that opened it passes its owner checks. */
  readonly asOwner: boolean
  /** Who may open it as it was opened. */
  readonly need: Need
  /** Whether it has locks of Git LFS. */
  readonly hasLfsLocks: boolean
  /** The role of the principal that opened it; `admin` for its owner and for admins. */
  readonly role: Role
}

/** Who may do an action: all whose role suffices for the permission, all who may propose changes, maintainers, or owners. */
export type Need = 'member' | 'proposer' | 'maintainer' | 'owner'

type Dependencies = LifeCycleDependencies & {
  directories: Directories
  store: Store
  deletedRepositories: DeletedRepositories
}

export function createRepositories(dependencies: Dependencies): Repositories {
  const { db, directories, store, clock } = dependencies

  async function openBy(
    by: { name: string } | { id: string },
    principal: Principal,
    permission: Permission,
    need: Need,
  ): Promise<Repository> {
    const row = await authorizedRow(by, principal, permission, need)
    return toRepository({ ...row, ...(await store.at(row)) }, principal, need)
  }

  /** Opens a repository as `open` does, or if that hides it from a limited token, as for a caller without a token. */
  async function openAlsoPublic(
    principal: Principal,
    permission: Permission,
    open: (principal: Principal) => Promise<Repository>,
  ): Promise<Repository> {
    try {
      return await open(principal)
    } catch (error) {
      const isHidden = error instanceof Problem && error.code === 'repository_not_found'
      const isRead = principal.repositories !== undefined && permission === 'repo:read'
      if (!isHidden || !isRead || error.members?.renamedTo !== undefined) throw error
      return open(withoutToken)
    }
  }

  async function authorizedRow(
    by: { name: string } | { id: string },
    principal: Principal,
    permission: Permission,
    need: Need,
  ): Promise<VisibleRow> {
    const row = await visibleTo(principal, by, permission)
    if (!row) throw 'name' in by ? await absent(principal, by.name) : repositoryDeleted()
    requireRole(principal, row, need === 'proposer' ? 'change:write' : permission)
    const isOfSettings = need === 'maintainer' || need === 'owner'
    if (isOfSettings && !permission.endsWith(':read')) requireAllRefs(principal)
    if (need === 'maintainer' && !mayMaintain(principal, row)) throw maintainerRequired()
    if (need === 'owner' && !mayOwn(principal, row)) {
      throw new Problem(
        'owner_required',
        'Only the owner of the repository or an admin may do this.',
      )
    }
    if (row.state === 'importing') throw importing(row.name)
    return row
  }

  // An invisible repository is treated like a missing one, so a caller cannot learn of it.
  async function visibleTo(
    principal: Principal,
    by: { name: string } | { id: string },
    permission: Permission,
  ): Promise<VisibleRow | undefined> {
    requirePermission(principal, permission)
    const isPossible = 'id' in by || isRepositoryName(by.name)
    const row = isPossible ? await findRepository(db, by, principal.username) : undefined
    return row && maySee(principal, row) ? row : undefined
  }

  /** The Problem of a name that no repository has that the principal can see. */
  async function absent(principal: Principal, name: string): Promise<Problem> {
    const now = clock.now()
    const { username } = principal
    const row = isRepositoryName(name) && (await findByFormerName(db, name, { username, now }))
    return row && maySee(principal, row)
      ? repositoryRenamed(name, row.name)
      : repositoryGone({ name })
  }

  function toRepository(
    row: Standing & RepositoryFields & Pick<Repository, 'pruneEpoch'> & { lfsLocks?: number },
    principal: Principal,
    need: Need = 'member',
  ): Repository {
    const { id, name, description, path, pruneEpoch, createdAt, pushedAt, state } = row
    const { ownerTokenId, ownerUsername, leakGuard, runTokens, visibility } = row
    const { namespaceId, missingLfsObjects, objectFormat } = row
    const hasLfsLocks = (row.lfsLocks ?? 0) > 0
    const asOwner = mayOwn(principal, row)
    const role = roleOf(principal, row) ?? 'read'
    const about = { id, name, namespaceId, description, createdAt, pushedAt, state }
    const owner = { ownerTokenId, ownerUsername, asOwner, role }
    const caller = { isVisitor: isVisitor(principal, row) }
    const settings = { leakGuard, runTokens, visibility, missingLfsObjects, objectFormat }
    // Access has been checked: no other function may brand what it has not got from here.
    return {
      ...about,
      ...owner,
      ...caller,
      ...settings,
      path,
      pruneEpoch,
      need,
      hasLfsLocks,
    } as Repository
  }

  async function failedImport(principal: Principal, name: string): Promise<Repository | undefined> {
    const row = isRepositoryName(name) ? await findFailedImport(db, name) : undefined
    if (!row) return undefined
    const { repositoryId: id, startedAt: createdAt, ownerTokenId, ownerUsername } = row
    const about = { namespaceId: null, visibility: 'private', role: undefined } as const
    const standing = { id, ownerUsername, ...about }
    if (!maySee(principal, standing)) return undefined
    const owner = { id: ownerTokenId, username: ownerUsername }
    const place = { id, name, namespaceId: null, createdAt, objectFormat: null }
    const repository = newRepository(owner, place)
    const files = { path: directories.pathOf(id), pruneEpoch: 0 }
    return toRepository({ ...repository, ...standing, ...files, state: 'failed' }, principal)
  }

  /** Repositories as lists show them, with their protections. */
  function listed(
    principal: Principal,
    rows: readonly ListedRow[],
    protections: readonly ProtectionRow[],
  ): ListedRepository[] {
    const byId = Map.groupBy(protections, ({ scopeId }) => scopeId)
    return rows.map((row) => {
      const branches = protectedBranchesIn(byId.get(row.id) ?? [])
      const [path, isOfVisitor] = [directories.pathOf(row.id), isVisitor(principal, row)]
      return toListed({ ...row, path, isVisitor: isOfVisitor }, branches)
    })
  }

  return {
    open: (principal, name, permission, need = 'member') =>
      openBy({ name }, principal, permission, need),

    async openForGit(principal, name, permission, need = 'member') {
      const open = (by: { name: string }) =>
        openAlsoPublic(principal, permission, (as) => openBy(by, as, permission, need))
      try {
        return await open({ name })
      } catch (error) {
        const renamedTo = error instanceof Problem ? error.members?.renamedTo : undefined
        if (renamedTo === undefined) throw error
        return open({ name: renamedTo })
      }
    },

    async openInAnyState(principal, name, permission) {
      const row = await visibleTo(principal, { name }, permission)
      if (row) requireRole(principal, row, permission)
      if (row?.state === 'ready')
        return toRepository({ ...row, ...(await store.at(row)) }, principal)
      if (row) return toRepository({ ...row, path: directories.pathOf(row.id) }, principal)
      const failed = await failedImport(principal, name)
      if (!failed) throw await absent(principal, name)
      return failed
    },

    reopen: (principal, { id }, permission, need = 'member') =>
      openAlsoPublic(principal, permission, (as) => openBy({ id }, as, permission, need)),

    recheck: (principal, { id }, permission, need = 'member') =>
      openAlsoPublic(principal, permission, async (as) => {
        const row = await authorizedRow({ id }, as, permission, need)
        return toRepository({ ...row, path: directories.pathOf(id) }, as, need)
      }),

    describe: (repository) => describeRepository(dependencies, repository),

    async list(principal, { namespace, ...page }) {
      const namespaceId =
        namespace === undefined
          ? undefined
          : (await requireListedNamespace(db, principal, namespace)).id
      const rows = await listRepositories(db, viewerOf(principal), { ...page, namespaceId })
      const [first, last] = [rows.at(0), rows.at(-1)]
      if (!first || !last) return []
      return listed(principal, rows, await listProtectionsBetween(db, first.id, last.id))
    },

    async listByPush(principal, { filter = '', cursor, limit }) {
      const [at, id = ''] = cursor?.split('.') ?? []
      const after = at === undefined ? undefined : { at: Number(at), id }
      const page = { part: filter.toLowerCase(), after, limit }
      const rows = await listRepositoriesByPush(db, viewerOf(principal), page)
      const ids = rows.map((row) => row.id)
      return listed(principal, rows, await listProtectionsOfAll(db, ids))
    },

    async idsOf(principal, names) {
      const ids: string[] = []
      for (const name of names) {
        const row = isRepositoryName(name)
          ? await findRepository(db, { name }, principal.username)
          : undefined
        if (!row || !maySee(principal, row)) throw await absent(principal, name)
        ids.push(row.id)
      }
      return ids
    },

    async idNamed(name) {
      if (!isRepositoryName(name)) return undefined
      const row =
        (await findRepository(db, { name }, '')) ??
        (await findByFormerName(db, name, { username: '', now: clock.now() }))
      return row?.id
    },

    async ownedBy(username, ids) {
      const user: Principal = { kind: 'token', id: '', username, permissions: new Set() }
      const rows = await findRepositoriesById(db, ids, username)
      return new Map(rows.map((row) => [row.id, mayOwn(user, row)]))
    },

    async hasOwnRole(principal, id) {
      const row = await findRepository(db, { id }, principal.username)
      return row !== undefined && hasOwnRole(principal, row)
    },

    async roleOfUser(username, id) {
      const user: Principal = { kind: 'token', id: '', username, permissions: new Set() }
      const row = await findRepository(db, { id }, username)
      return row && roleOf(user, row)
    },

    namesOf: (principal, ids) => listNames(db, viewerOf(principal), ids),
    hasPublic: () => hasPublicRepository(db),
    namesOwnedBy: listNamesOwnedBy,

    ...createLifeCycle(dependencies),

    reconcile: () =>
      store.shared ? removeUnknown(db, store, directories) : reconcileDirectories(db, directories),
  }
}

const withoutToken = anonymousFrom('', false)

// The code of the API for both needs: what differs is who may.
function maintainerRequired(): Problem {
  return new Problem(
    'owner_required',
    'Only the owner of the repository, its maintainers or an admin may do this.',
  )
}

function importing(name: string): Problem {
  return new Problem(
    'repository_importing',
    `"${name}" is still being imported. GET ${apiPathOf(name)} shows the progress.`,
  )
}
