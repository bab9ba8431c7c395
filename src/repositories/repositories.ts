import { mayOwn, maySee, maySeeAll, requirePermission, type Standing } from '../access/may.ts'
import { isRepositoryName } from '../access/names.ts'
import type { Permission } from '../access/permissions.ts'
import type { Principal } from '../access/principal.ts'
import type { Clock } from '../base/clock.ts'
import type { FaultPoint } from '../base/fault-points.ts'
import { Problem } from '../base/problem.ts'
import type { Database } from '../database/database.ts'
import type { RepositoryState } from '../database/schema.ts'
import type { Actor, Publish } from '../events/events.ts'
import type { Store } from '../store/store.ts'
import {
  describeRepository,
  type ListedRepository,
  type RepositoryDescription,
  type RepositoryFields,
  toListed,
} from './describe-repository.ts'
import type { Directories } from './directories.ts'
import { findFailedImport } from './import-store.ts'
import { listProtectionsBetween } from './protection-store.ts'
import { reconcileDirectories, removeUnknown } from './reconcile-directories.ts'
import { repositoryGone } from './repository-errors.ts'
import { createLifeCycle } from './repository-life-cycle.ts'
import { findRepository, listRepositories, type VisibleRow } from './repository-store.ts'

/** Repositories: access to them, and their life from creation to deletion. */
export type Repositories = {
  /**
   * Opens a repository by name for an action, if the principal may. Throws `permission_missing`,
   * `repository_not_found` (also when it must not be seen), `owner_required` or `repository_importing`,
   * in this order.
   */
  open: (
    principal: Principal,
    name: string,
    permission: Permission,
    need?: Need,
  ) => Promise<Repository>
  /** Opens a repository to describe or remove it, even one whose import is running or has failed. */
  find: (principal: Principal, name: string, permission: Permission) => Promise<Repository>
  /** Opens a repository again by id, with its present state and the principal's present permissions. */
  reopen: (
    principal: Principal,
    repository: Pick<Repository, 'id'>,
    permission: Permission,
  ) => Promise<Repository>
  describe: (repository: RepositoryFields) => Promise<RepositoryDescription>
  /** The repositories that a principal can see, oldest first. */
  list: (
    principal: Principal,
    page: { after: string; limit: number | undefined },
  ) => Promise<ListedRepository[]>
  /** Creates an empty repository. Its directory is complete before its row exists. */
  create: (
    owner: Principal,
    wanted: { name: string; defaultBranch?: string | undefined },
  ) => Promise<RepositoryDescription>
  /** Renames a repository; the old name is free at once. */
  rename: (actor: Actor, repository: Repository, name: string) => Promise<RepositoryDescription>
  /**
   * Deletes a repository with all that belongs to it. Once its row is deleted, its files cannot be reached. A
   * running import is cancelled; for a failed import, its record is deleted.
   */
  remove: (actor: Actor, repository: Repository) => Promise<void>
  /**
   * Reconciles directories with rows. A directory without a row is removed when it is left from a creation or
   * deletion that a crash interrupted; any other is quarantined, because it may be the only copy of a repository.
   * Returns the quarantine paths, and the ids of rows without a directory.
   */
  reconcile: () => Promise<{ quarantined: string[]; missing: string[] }>
}

declare const opened: unique symbol

/** A repository that was opened with authorization: only `open`, `find` and `reopen` return one. */
export type Repository = {
  readonly [opened]: true
  readonly id: string
  readonly name: string
  /** The bare repository's directory. */
  readonly path: string
  readonly createdAt: number
  readonly ownerTokenId: string
  readonly ownerUsername: string
  /** Whether the principal that opened it passes its owner checks. */
  readonly asOwner: boolean
  /** Only `find` returns one that is not `ready`; a `failed` one stands for its failed import. */
  readonly state: RepositoryState | 'failed'
}

/** Who may do an action: anyone who can see the repository, or only its owner and admins. */
export type Need = 'member' | 'owner'

type Dependencies = {
  db: Database
  publish: Publish
  directories: Directories
  store: Store
  clock: Clock
  faultPoint: FaultPoint
  /** Called before a repository is deleted, to stop work on it. */
  beforeRemove: (id: string) => Promise<void>
  /** The public base URL of the service, for clone URLs. */
  baseUrl: () => string
  /** The same over SSH, `ssh://user@host:port`; null when SSH is off. */
  sshUrl: () => string | null
}

export function createRepositories(dependencies: Dependencies): Repositories {
  const { db, directories, store } = dependencies
  const lifeCycle = createLifeCycle(dependencies)

  async function openBy(
    by: { name: string } | { id: string },
    principal: Principal,
    permission: Permission,
    need: Need,
  ): Promise<Repository> {
    const row = await visibleTo(principal, by, permission)
    if (!row) throw 'name' in by ? repositoryGone(by) : deleted()
    if (need === 'owner' && !mayOwn(principal, row)) {
      throw new Problem(
        'owner_required',
        'Only the owner of the repository or an admin may do this.',
      )
    }
    if (row.state === 'importing') throw importing(row.name)
    return toRepository(row, await store.at(row), principal)
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

  function toRepository(
    row: Standing & Omit<RepositoryFields, 'path'>,
    path: string,
    principal: Principal,
  ): Repository {
    const { id, name, createdAt, ownerTokenId, ownerUsername, state } = row
    const asOwner = mayOwn(principal, row)
    // Access has been checked, so the brand of an opened repository may be asserted here, and only here.
    return { id, name, path, createdAt, ownerTokenId, ownerUsername, asOwner, state } as Repository
  }

  async function failedImport(principal: Principal, name: string): Promise<Repository | undefined> {
    const row = isRepositoryName(name) ? await findFailedImport(db, name) : undefined
    if (!row) return undefined
    const { repositoryId: id, startedAt: createdAt, ownerTokenId, ownerUsername } = row
    const standing = { ownerUsername, isCollaborator: false }
    if (!maySee(principal, standing)) return undefined
    return toRepository(
      { ...standing, id, name, createdAt, ownerTokenId, state: 'failed' },
      directories.pathOf(id),
      principal,
    )
  }

  const describe = (repository: RepositoryFields) => describeRepository(dependencies, repository)

  return {
    open: (principal, name, permission, need = 'member') =>
      openBy({ name }, principal, permission, need),

    async find(principal, name, permission) {
      const row = await visibleTo(principal, { name }, permission)
      if (row?.state === 'ready') return toRepository(row, await store.at(row), principal)
      if (row) return toRepository(row, directories.pathOf(row.id), principal)
      const failed = await failedImport(principal, name)
      if (!failed) throw repositoryGone({ name })
      return failed
    },

    reopen: (principal, { id }, permission) => openBy({ id }, principal, permission, 'member'),

    describe,

    async list(principal, page) {
      const viewer = maySeeAll(principal) ? 'all' : { username: principal.username }
      const rows = await listRepositories(db, viewer, page)
      const [first, last] = [rows.at(0), rows.at(-1)]
      if (!first || !last) return []
      const protections = await listProtectionsBetween(db, first.id, last.id)
      const byId = Map.groupBy(protections, ({ repositoryId }) => repositoryId)
      return rows.map((row) => {
        const branches = (byId.get(row.id) ?? []).map(({ branch }) => branch)
        return toListed({ ...row, path: directories.pathOf(row.id) }, branches)
      })
    },

    create: async (owner, wanted) => describe(await lifeCycle.create(owner, wanted)),

    async rename(actor, repository, name) {
      await lifeCycle.rename(actor, repository, name)
      return describe({ ...repository, name })
    },

    remove: lifeCycle.remove,

    reconcile: () =>
      store.shared ? removeUnknown(db, store, directories) : reconcileDirectories(db, directories),
  }
}

function importing(name: string): Problem {
  return new Problem(
    'repository_importing',
    `"${name}" is still being imported. GET /repos/${name} shows the progress.`,
  )
}

function deleted(): Problem {
  return new Problem(
    'repository_not_found',
    'The repository was deleted, or it is not yours to see.',
  )
}
