import { isAdmin, mayOwn, requirePermission } from '#access/may.ts'
import type { Permission } from '#access/permissions.ts'
import type { Principal } from '#access/principal.ts'
import { dayMs } from '#base/clock.ts'
import { createSingleFlight } from '#base/concurrency/single-flight.ts'
import { isId } from '#base/ids.ts'
import type { PageRequest } from '#base/list-all.ts'
import type { Log } from '#base/log.ts'
import { Problem } from '#base/problem.ts'
import { isLocked } from '#config/data-directory.ts'
import type { FreeSpace } from '#config/free-space.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Db } from '#database/schema.ts'
import type { Actor } from '#events/events.ts'
import { closeReadersOf } from '#git/process/process-pool.ts'
import { claimName } from './claim-name.ts'
import {
  type DeletedRow,
  findDeleted,
  listDeleted,
  listDeletedBefore,
  listPurging,
  markDeleted,
  markPurging,
  markRestored,
} from './deleted-repository-store.ts'
import {
  describeRepository,
  type RepositoryDescription,
  type RepositoryFields,
} from './describe-repository.ts'
import { isThere } from './directories/deleted-directories.ts'
import { type EraseDependencies, eraseRepository } from './erase-repository.ts'
import { deleteFailedImports } from './import-store.ts'
import { enforceLimits, enforceRepositoryLimit } from './namespace-limits.ts'
import { holdPlace, requirePlace, requireSingleUse } from './place-name.ts'
import { placeDirectory } from './reconcile-directories.ts'
import { asTaken, nameTaken, repositoryGone } from './repository-errors.ts'
import { isNameTaken } from './repository-store.ts'

/** Deleted repositories: for a while they can be restored with all that belongs to them; then they are purged. */
export type DeletedRepositories = {
  /** The deleted repositories that a principal may restore, in the order of their creation. */
  list: (principal: Principal, page: PageRequest) => Promise<DeletedRepository[]>
  /** Throws `permission_missing`, or `repository_not_found` unless the principal passes its owner checks. */
  find: (principal: Principal, id: string, permission: Permission) => Promise<DeletedRow>
  /** Restores a repository, under another name if one is given. Throws `repository_name_taken`. */
  restore: (
    actor: Principal,
    repository: DeletedRow,
    name: string | undefined,
  ) => Promise<RepositoryDescription>
  /** Removes a deleted repository for good. */
  purge: (actor: Actor, repository: DeletedRow) => Promise<void>
  /** Whether a repository can be restored once it is deleted. */
  isRetained: (repository: Pick<RepositoryFields, 'id' | 'state'>) => Promise<boolean>
  /** Deletes a repository so that it can be restored. */
  retain: (actor: Actor, repository: RepositoryFields) => Promise<void>
  /** Purges repositories whose retention has ended, and on a full disk the oldest ones. */
  sweep: () => Promise<void>
}

/** A deleted repository as the API describes it. */
type DeletedRepository = Pick<
  DeletedRow,
  'id' | 'name' | 'createdAt' | 'ownerTokenId' | 'ownerUsername' | 'deletedAt'
> & { purgeAt: number }

/** What other slices do when a repository is deleted, restored or purged. */
export type RepositoryBelongings = {
  /** Ends all runs, and waits until their processes have exited. */
  endRuns: (repositoryId: string) => Promise<void>
  /** Sets when webhooks are due, in the transaction that has deleted or restored their repository. */
  refreshWebhooks: (tx: Db, repositoryId: string) => Promise<void>
  /** Aborts the webhook deliveries that are in flight. */
  cutOffWebhooks: (repositoryId: string) => Promise<void>
  /** Removes all webhooks, in batches, since they may be large. */
  purgeWebhooks: (repositoryId: string) => Promise<void>
}

type Dependencies = EraseDependencies &
  Parameters<typeof describeRepository>[0] & {
    freeSpace: Pick<FreeSpace, 'measure'>
    settings: Pick<PlainSettings, 'dataDir' | 'deletedRetentionDays'>
    belongings: RepositoryBelongings
    log: Log
  }

const sweeper: Actor = { id: 'server', username: 'svc' }
const maxPurgesPerSweep = 100

export function createDeletedRepositories(dependencies: Dependencies): DeletedRepositories {
  const { db, publish, directories, store, freeSpace, settings } = dependencies
  const { belongings, clock, faultPoint, log } = dependencies
  const retentionMs = settings.deletedRetentionDays * dayMs
  const share = createSingleFlight<void>()
  const isLocal = store.shared === undefined

  async function purge(actor: Actor, repository: DeletedRow): Promise<void> {
    if (!(await markPurging(db, repository.id))) throw deletedNotFound(repository.id)
    faultPoint('purge.begun')
    await finishPurge(actor, repository)
  }

  async function finishPurge(
    actor: Actor,
    { id, name, ownerUsername }: Pick<DeletedRow, 'id' | 'name' | 'ownerUsername'>,
  ): Promise<void> {
    await belongings.purgeWebhooks(id)
    const data = { name, ownerUsername }
    const event = { kind: 'repository.purged', actor, repositoryId: id, data } as const
    await eraseRepository(dependencies, id, event)
  }

  async function attempt(repositoryId: string, work: () => Promise<void>): Promise<void> {
    await work().catch((error) => {
      // Another node, or a request, was faster.
      if (error instanceof Problem && error.code === 'repository_not_found') return
      log.error({ err: error, repositoryId }, 'deleted repository not purged')
    })
  }

  /** Purges the oldest ones while the disk is nearly full. */
  async function freeUp(): Promise<void> {
    // While a backup runs, the files of a purged repository would stay.
    while (isLocal && !isLocked(settings.dataDir, 'backup')) {
      const { freeBytes, minFreeBytes } = await freeSpace.measure()
      if (freeBytes >= minFreeBytes) return
      const [oldest] = await listDeletedBefore(db, clock.now(), 1)
      if (!oldest) return
      const { id: repositoryId, name, deletedAt } = oldest
      log.warn(
        { repositoryId, name, deletedAt, freeBytes, minFreeBytes },
        'deleted repository purged before its time, since the disk is nearly full',
      )
      await purge(sweeper, oldest)
    }
  }

  return {
    async list(principal, page) {
      const { username, repositories } = principal
      const viewer = isAdmin(principal)
        ? 'all'
        : { username, within: repositories && [...repositories] }
      const rows = await listDeleted(db, viewer, page)
      return rows.map(({ id, name, createdAt, ownerTokenId, ownerUsername, deletedAt }) => {
        const purgeAt = deletedAt + retentionMs
        return { id, name, createdAt, ownerTokenId, ownerUsername, deletedAt, purgeAt }
      })
    },

    async find(principal, id, permission) {
      requirePermission(principal, permission)
      const row = isId(id) ? await findDeleted(db, id, principal.username) : undefined
      if (!row || !mayOwn(principal, row)) throw deletedNotFound(id)
      return row
    },

    async restore(actor, repository, name = repository.name) {
      const { id, name: formerName } = repository
      const place = await requirePlace(db, actor, name)
      // A crash may have interrupted the deletion.
      await belongings.endRuns(id)
      const restored = await db
        .transaction()
        .execute(async (tx) => {
          await holdPlace(tx, place)
          if (await isNameTaken(tx, name)) throw nameTaken(name)
          const named = { name, namespaceId: place?.id ?? null }
          const row = await markRestored(tx, repository, named).catch(asTaken(name))
          if (!row) throw deletedNotFound(id)
          // In its namespace, its bytes count already.
          const isMoved = named.namespaceId !== repository.namespaceId
          await (isMoved ? enforceLimits : enforceRepositoryLimit)(tx, id)
          await claimName(tx, actor, { name, repositoryId: id, now: clock.now() })
          await deleteFailedImports(tx, name)
          // First, since the repository is in use as soon as this is committed.
          if (isLocal) await directories.moveFromDeleted(id)
          faultPoint('undelete.moved')
          const about = { actor, repositoryId: id, data: { name, formerName } }
          await publish(tx, clock.now(), [{ kind: 'repository.restored', ...about }])
          await requireSingleUse(tx, name)
          await belongings.refreshWebhooks(tx, id)
          return row
        })
        .catch(async (error) => {
          // If this fails, too, the next start does it.
          if (isLocal) await placeDirectory(db, directories, id).catch(() => {})
          throw error
        })
      faultPoint('undelete.recorded')
      const { path } = await store.at(restored)
      return describeRepository(dependencies, { ...restored, path, state: 'ready' })
    },

    purge,

    async isRetained({ id, state }) {
      if (settings.deletedRetentionDays === 0 || state !== 'ready') return false
      // Without its directory there is nothing to restore.
      return !isLocal || (await isThere(directories.pathOf(id)))
    },

    async retain(actor, { id, name, ownerUsername }) {
      await db.transaction().execute(async (tx) => {
        if (!(await markDeleted(tx, id, clock.now()))) throw repositoryGone({ name })
        const about = { actor, repositoryId: id, data: { name, ownerUsername } }
        await publish(tx, clock.now(), [{ kind: 'repository.deleted', ...about }])
        await belongings.refreshWebhooks(tx, id)
      })
      faultPoint('delete.retained')
      // Runs and deliveries that began before the transaction.
      await belongings.endRuns(id)
      await belongings.cutOffWebhooks(id)
      await closeReadersOf(directories.pathOf(id))
      const putAway = isLocal ? placeDirectory(db, directories, id) : store.remove(id)
      await putAway.catch((error) =>
        // It is deleted nevertheless, and the next start moves the directory.
        log.error({ err: error, repositoryId: id }, 'directory of a deleted repository not moved'),
      )
      faultPoint('delete.put-away')
      await share('free up', freeUp).catch((error) =>
        log.error({ err: error }, 'no deleted repository purged on a full disk'),
      )
    },

    async sweep() {
      for (const row of await listPurging(db))
        await attempt(row.id, () => finishPurge(sweeper, row))
      const before = clock.now() - retentionMs
      for (const row of await listDeletedBefore(db, before, maxPurgesPerSweep)) {
        const { id: repositoryId, name, deletedAt } = row
        await attempt(repositoryId, async () => {
          await purge(sweeper, row)
          log.info({ repositoryId, name, deletedAt }, 'deleted repository purged')
        })
      }
      await share('free up', freeUp)
    },
  }
}

function deletedNotFound(id: string): Problem {
  return new Problem(
    'repository_not_found',
    `There is no deleted repository with the id "${id}", or it is not yours to see.`,
  )
}
