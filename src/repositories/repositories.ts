import { mayOwn, maySee, maySeeAll, requirePermission, type Standing } from '../access/may.ts'
import { isRepositoryName } from '../access/names.ts'
import type { Permission } from '../access/permissions.ts'
import type { Principal } from '../access/principal.ts'
import type { Clock } from '../base/clock.ts'
import type { FaultPoint } from '../base/fault-points.ts'
import { newId } from '../base/ids.ts'
import { Problem } from '../base/problem.ts'
import type { Database } from '../database/database.ts'
import type { ImportRow, RepositoryRow, RepositoryState } from '../database/schema.ts'
import type { Actor, Event, Publish } from '../events/events.ts'
import { packBytes } from '../git/objects/packs.ts'
import { assertRepository, hasRefs, readDefaultBranch } from '../git/refs/refs.ts'
import type { Directories } from './directories.ts'
import { deleteFailedImports, deleteImport, findFailedImport, findImport } from './import-store.ts'
import { findMaintenanceState } from './maintenance-state-store.ts'
import { listProtections, listProtectionsBetween } from './protection-store.ts'
import {
  deleteRepository,
  findRepository,
  insertRepository,
  isNameTaken,
  listRepositories,
  listRepositoryStates,
  stateOf,
  updateName,
  type VisibleRow,
} from './repository-store.ts'

export type Repositories = ReturnType<typeof createRepositories>

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
  clock: Clock
  faultPoint: FaultPoint
  /** Called before a repository is deleted, to stop work on it. */
  beforeRemove: (id: string) => Promise<void>
  /** The public base URL of the service, for clone URLs. */
  baseUrl: () => string
  /** The same over SSH, `ssh://user@host:port`; null when SSH is off. */
  sshUrl: () => string | null
}

/** Repositories: access to them, and their life from creation to deletion. */
export function createRepositories(dependencies: Dependencies) {
  const { db, directories, publish, clock, faultPoint, beforeRemove, baseUrl, sshUrl } =
    dependencies

  async function openBy(
    by: { name: string } | { id: string },
    principal: Principal,
    permission: Permission,
    need: Need,
  ): Promise<Repository> {
    const row = await visibleTo(principal, by, permission)
    if (!row) throw notFound('name' in by ? by.name : undefined)
    const repository = toRepository(row, principal)
    if (need === 'owner' && !repository.asOwner) {
      throw new Problem(
        'owner_required',
        'Only the owner of the repository or an admin may do this.',
      )
    }
    if (row.state === 'importing') throw importing(row.name)
    return repository
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
    row: Standing & Omit<Described, 'path'> & Pick<Repository, 'state'>,
    principal: Principal,
  ): Repository {
    const { id, name, createdAt, ownerTokenId, ownerUsername, state } = row
    const path = directories.pathOf(id)
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
      principal,
    )
  }

  // A connection that breaks at a commit leaves its outcome unknown.
  async function isKnownAbsent(id: string): Promise<boolean> {
    return stateOf(db, id).then(
      (state) => state === undefined,
      () => false,
    )
  }

  async function describe(repository: Described) {
    const { id, path, name } = repository
    const ssh = sshUrl()
    const cloneUrls = { http: `${baseUrl()}/repos/${name}.git`, ssh: ssh && `${ssh}/${name}.git` }
    if (repository.state !== 'ready') {
      const row = await findImport(db, id)
      if (row)
        return { ...toSummary(repository, []), ...emptyDetails, cloneUrls, import: toImport(row) }
      // It has become ready since it was opened, or was deleted.
      if ((await stateOf(db, id)) !== 'ready') throw notFound(name)
    }
    await assertRepository(path)
    const [protectedBranches, defaultBranch, isUsed, sizeBytes, maintenance] = await Promise.all([
      listProtections(db, id),
      readDefaultBranch(path),
      hasRefs(path, 'visible'),
      packBytes(path),
      findMaintenanceState(db, id, clock.now()),
    ])
    return {
      ...toSummary({ ...repository, state: 'ready' }, protectedBranches),
      defaultBranch,
      empty: !isUsed,
      sizeBytes,
      cloneUrls,
      maintenance,
      import: null,
    }
  }

  return {
    /**
     * Opens a repository by name for an action, if the principal may. Throws `permission_missing`,
     * `repository_not_found` (also when it must not be seen), `owner_required` or `repository_importing`,
     * in this order.
     */
    open: (principal: Principal, name: string, permission: Permission, need: Need = 'member') =>
      openBy({ name }, principal, permission, need),

    /** Opens a repository to describe or remove it, even one whose import is running or has failed. */
    async find(principal: Principal, name: string, permission: Permission): Promise<Repository> {
      const row = await visibleTo(principal, { name }, permission)
      if (row) return toRepository(row, principal)
      const failed = await failedImport(principal, name)
      if (!failed) throw notFound(name)
      return failed
    },

    /** Opens a repository again by id, with its present state and the principal's present permissions. */
    reopen: (principal: Principal, { id }: Pick<Repository, 'id'>, permission: Permission) =>
      openBy({ id }, principal, permission, 'member'),

    describe,

    /** The repositories that a principal can see, oldest first. */
    async list(principal: Principal, page: { after: string; limit: number | undefined }) {
      const viewer = maySeeAll(principal) ? 'all' : { username: principal.username }
      const rows = await listRepositories(db, viewer, page)
      const [first, last] = [rows.at(0), rows.at(-1)]
      if (!first || !last) return []
      const protections = await listProtectionsBetween(db, first.id, last.id)
      const byId = Map.groupBy(protections, ({ repositoryId }) => repositoryId)
      return rows.map((row) => {
        const branches = (byId.get(row.id) ?? []).map(({ branch }) => branch)
        return toSummary({ ...row, path: directories.pathOf(row.id) }, branches)
      })
    },

    /** Creates an empty repository. Its directory is complete before its row exists. */
    async create(
      owner: Principal,
      { name, defaultBranch }: { name: string; defaultBranch?: string | undefined },
    ) {
      if (await isNameTaken(db, name)) throw nameTaken(name)
      const id = newId(clock.now())
      const repository: RepositoryRow = {
        id,
        name,
        nameKey: name.toLowerCase(),
        ownerTokenId: owner.id,
        ownerUsername: owner.username,
        createdAt: clock.now(),
        state: 'ready',
      }
      await directories.create(id, defaultBranch)
      try {
        await db.transaction().execute(async (tx) => {
          if (!(await insertRepository(tx, repository))) throw nameTaken(name)
          await deleteFailedImports(tx, name)
          const event: Event = {
            kind: 'repository.created',
            actor: owner,
            repositoryId: id,
            data: { name },
          }
          await publish(tx, clock.now(), [event])
        })
      } catch (error) {
        if (await isKnownAbsent(id)) await directories.remove(id)
        throw error
      }
      faultPoint('create.recorded')
      return describe({ ...repository, path: directories.pathOf(id) })
    },

    /** Renames a repository; the old name is free at once. */
    async rename(actor: Actor, repository: Repository, name: string) {
      await db.transaction().execute(async (tx) => {
        if (repository.name === name) return
        const isOtherCase = repository.name.toLowerCase() === name.toLowerCase()
        if (!isOtherCase && (await isNameTaken(tx, name))) throw nameTaken(name)
        if (!(await updateName(tx, repository.id, name).catch(asTaken(name)))) {
          throw notFound(repository.name)
        }
        await deleteFailedImports(tx, name)
        faultPoint('rename.updated')
        const data = { name, formerName: repository.name }
        const about = { actor, repositoryId: repository.id }
        await publish(tx, clock.now(), [{ kind: 'repository.renamed', ...about, data }])
      })
      faultPoint('rename.recorded')
      return describe({ ...repository, name })
    },

    /**
     * Deletes a repository with all that belongs to it. Once its row is deleted, its files cannot be reached. A
     * running import is cancelled; for a failed import, its record is deleted.
     */
    async remove(actor: Actor, repository: Repository): Promise<void> {
      const { id, name, state } = repository
      if (state === 'failed') return deleteImport(db, id)
      await beforeRemove(id)
      await directories.markForDeletion(id)
      try {
        await db.transaction().execute(async (tx) => {
          if (!(await deleteRepository(tx, id))) throw notFound(name)
          await deleteImport(tx, id)
          const { ownerUsername } = repository
          const about = { actor, repositoryId: id, data: { name, ownerUsername } }
          await publish(tx, clock.now(), [{ kind: 'repository.deleted', ...about }])
        })
      } catch (error) {
        if (!(await isKnownAbsent(id))) await directories.unmarkForDeletion(id)
        throw error
      }
      faultPoint('delete.recorded')
      await directories.remove(id)
    },

    /**
     * Reconciles directories with rows. A directory without a row is removed when it is left from a creation or
     * deletion that a crash interrupted; any other is quarantined, because it may be the only copy of a repository.
     * Returns the quarantine paths, and the ids of rows without a directory.
     */
    async reconcile(): Promise<{ quarantined: string[]; missing: string[] }> {
      const states = await listRepositoryStates(db)
      const idsOf = (wanted: RepositoryState) =>
        states.filter(({ state }) => state === wanted).map(({ id }) => id)
      const rows = new Set(idsOf('ready'))
      const importing = new Set(idsOf('importing'))
      const present = new Set(await directories.list())
      const quarantined: string[] = []
      for (const id of present.difference(rows).difference(importing)) {
        const isLeftover =
          (await directories.isMarkedForDeletion(id)) ||
          !(await hasRefs(directories.pathOf(id), 'any'))
        if (isLeftover) await directories.remove(id)
        else quarantined.push(await directories.quarantine(id))
      }
      for (const id of present.intersection(rows)) await directories.unmarkForDeletion(id)
      return { quarantined, missing: [...rows.difference(present)] }
    },
  }
}

type Described = Pick<Repository, 'id' | 'name' | 'path' | 'createdAt' | 'ownerTokenId' | 'state'>

const emptyDetails = {
  defaultBranch: 'main',
  empty: true,
  sizeBytes: 0,
  maintenance: { state: 'idle', finishedAt: null },
} as const

function toSummary(repository: Described, protectedBranches: string[]) {
  const { id, name, createdAt, path, ownerTokenId, state } = repository
  return { id, name, createdAt, path, ownerTokenId, protectedBranches, state }
}

function toImport({ source, phase, progress, faultCode, faultDetail }: ImportRow) {
  const fault = faultCode === null ? null : { code: faultCode, detail: faultDetail ?? '' }
  return { source, phase, progress, fault }
}

function importing(name: string): Problem {
  return new Problem(
    'repository_importing',
    `"${name}" is still being imported. GET /repos/${name} shows the progress.`,
  )
}

function notFound(name: string | undefined): Problem {
  const which =
    name === undefined ? 'The repository was deleted' : `There is no repository "${name}"`
  return new Problem('repository_not_found', `${which}, or it is not yours to see.`)
}

/** The Problem of a name that is taken. */
export function nameTaken(name: string): Problem {
  return new Problem(
    'repository_name_taken',
    `"${name}" is taken, in this or another case; choose another name.`,
  )
}

// Two concurrent renames may both find the name free; the unique index rejects one of them.
const uniqueViolations = new Set<unknown>(['23505', 2067])

function asTaken(name: string): (error: unknown) => never {
  return (error) => {
    const fault = error as { code?: unknown; errcode?: unknown }
    if (uniqueViolations.has(fault.code) || uniqueViolations.has(fault.errcode))
      throw nameTaken(name)
    throw error
  }
}
