import type { Principal } from '#access/principal.ts'
import type { Role } from '#access/roles.ts'
import type { Visibility } from '#access/visibility.ts'
import { newId } from '#base/ids.ts'
import type { ObjectFormat } from '#base/object-id.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Db } from '#database/schema.ts'
import type { Actor, Event } from '#events/events.ts'
import { invalid } from '#http/validation.ts'
import { claimName, keepFormerName } from './claim-name.ts'
import type { DeletedRepositories, RepositoryBelongings } from './deleted-repositories.ts'
import {
  describeRepository,
  newRepository,
  type RepositoryDescription,
  type RepositoryFields,
} from './describe-repository.ts'
import { type EraseDependencies, eraseRepository, isKnownAbsent } from './erase-repository.ts'
import { deleteFailedImports, deleteImport } from './import-store.ts'
import { enforceLimits, enforceRepositoryLimit } from './namespace-limits.ts'
import {
  holdPlace,
  placeOfRename,
  requireMaintained,
  requirePlace,
  requireSingleUse,
} from './place-name.ts'
import { asTaken, nameTaken, repositoryGone } from './repository-errors.ts'
import {
  insertRepository,
  isNameTaken,
  type RepositorySettings,
  updateName,
  updateSettings,
} from './repository-store.ts'

export type LifeCycle = {
  /** Creates an empty repository. Its directory is complete before its row exists. */
  create: (
    owner: Principal,
    wanted: {
      name: string
      defaultBranch?: string | undefined
      objectFormat?: ObjectFormat | undefined
      visibility?: Visibility | undefined
    },
  ) => Promise<RepositoryDescription>
  /** Renames a repository. For 90 days, the old name leads to it, and only its owner and admins can take it. */
  rename: (
    actor: Principal,
    repository: OpenedFields,
    name: string,
  ) => Promise<RepositoryDescription>
  /** Throws `invalid_request` unless a user exists and is enabled, who can then get a repository. */
  requireOwner: (username: string) => Promise<void>
  /** Changes settings of a repository, of which its owner is one. */
  set: (
    actor: Actor,
    repository: RepositoryFields,
    changes: Partial<RepositorySettings>,
  ) => Promise<void>
  /**
   * Deletes a repository with all that belongs to it, for good unless it is retained. Once its row is deleted, its files
   * cannot be reached. A running import is cancelled; for a failed import, its record is deleted.
   */
  remove: (actor: Actor, repository: OpenedFields) => Promise<void>
}

/** The fields of a repository that an actor has opened, with the actor's role. */
type OpenedFields = RepositoryFields & { readonly role: Role }

export type LifeCycleDependencies = EraseDependencies &
  Parameters<typeof describeRepository>[0] & {
    deletedRepositories: Pick<DeletedRepositories, 'isRetained' | 'retain'>
    belongings: RepositoryBelongings
    settings: Pick<PlainSettings, 'defaultObjectFormat'>
    /** Whether a user exists and is enabled; it cannot be deleted until the transaction ends. */
    lockEnabledUser: (tx: Db, username: string) => Promise<boolean>
  }

/** Creates, renames and deletes repositories, each with its event. */
export function createLifeCycle(dependencies: LifeCycleDependencies): LifeCycle {
  const { db, store, publish, clock, faultPoint } = dependencies
  const { deletedRepositories, belongings, settings, lockEnabledUser } = dependencies

  async function requireOwner(tx: Db, username: string): Promise<void> {
    if (await lockEnabledUser(tx, username)) return
    const detail = 'must be the username of a user who is not disabled.'
    throw invalid([{ pointer: '/ownerUsername', detail }])
  }

  return {
    async create(owner, { name, defaultBranch, objectFormat = null, visibility = 'private' }) {
      const place = await requirePlace(db, owner, name)
      if (await isNameTaken(db, name)) throw nameTaken(name)
      const now = clock.now()
      const namespaceId = place?.id ?? null
      const repository = {
        ...newRepository(owner, {
          ...{ id: newId(now), name, namespaceId },
          ...{ createdAt: now, objectFormat },
        }),
        visibility,
        state: 'ready',
        nameKey: name.toLowerCase(),
        packBytes: 0,
        headChosen: defaultBranch === undefined ? 0 : 1,
      } as const
      const { id } = repository
      const format = objectFormat ?? settings.defaultObjectFormat
      const row = { ...repository, ...(await store.create(id, format, defaultBranch)) }
      try {
        await db.transaction().execute(async (tx) => {
          await holdPlace(tx, place)
          if (!(await insertRepository(tx, row))) throw nameTaken(name)
          await enforceRepositoryLimit(tx, id)
          await claimName(tx, owner, { name, repositoryId: id, now: clock.now() })
          await deleteFailedImports(tx, name)
          const about = { actor: owner, repositoryId: id, data: { name } }
          await publish(tx, clock.now(), [{ kind: 'repository.created', ...about }])
          await requireSingleUse(tx, name)
        })
      } catch (error) {
        if (await isKnownAbsent(db, id)) await store.remove(id)
        throw error
      }
      faultPoint('create.recorded')
      const { path } = await store.at({ id, version: 0 })
      return describeRepository(dependencies, { ...repository, path })
    },

    requireOwner: (username) => requireOwner(db, username),

    async set(actor, repository, changes) {
      await db.transaction().execute(async (tx) => {
        if (changes.ownerUsername !== undefined) await requireOwner(tx, changes.ownerUsername)
        const former = await updateSettings(tx, repository.id, changes)
        if (!former) throw repositoryGone(repository)
        await publish(tx, clock.now(), eventsOf(actor, repository.id, { former, changes }))
      })
    },

    async rename(actor, repository, name) {
      if (repository.name === name) return describeRepository(dependencies, repository)
      const place = await placeOfRename(db, actor, repository, name)
      await db.transaction().execute(async (tx) => {
        await holdPlace(tx, place)
        const isOtherCase = repository.name.toLowerCase() === name.toLowerCase()
        if (!isOtherCase && (await isNameTaken(tx, name))) throw nameTaken(name)
        const { id: repositoryId } = repository
        const named = { name, namespaceId: place?.id ?? null }
        const former = await updateName(tx, repositoryId, named).catch(asTaken(name))
        if (!former) throw repositoryGone(repository)
        const { name: formerName } = former
        if (named.namespaceId !== former.namespaceId) await enforceLimits(tx, repositoryId)
        const now = clock.now()
        await claimName(tx, actor, { name, repositoryId, now })
        if (formerName.toLowerCase() !== name.toLowerCase())
          await keepFormerName(tx, { name: formerName, repositoryId, now })
        await deleteFailedImports(tx, name)
        faultPoint('rename.updated')
        const data = { name, formerName }
        await publish(tx, now, [{ kind: 'repository.renamed', actor, repositoryId, data }])
        await requireSingleUse(tx, name)
      })
      faultPoint('rename.recorded')
      return describeRepository(dependencies, { ...repository, name })
    },

    async remove(actor, repository) {
      const { id, name, state, ownerUsername } = repository
      requireMaintained(repository, 'delete')
      if (state === 'failed') return deleteImport(db, id)
      await belongings.endRuns(id)
      if (await deletedRepositories.isRetained(repository)) {
        return deletedRepositories.retain(actor, repository)
      }
      await belongings.purgeWebhooks(id)
      const data = { name, ownerUsername }
      const event = { kind: 'repository.deleted', actor, repositoryId: id, data } as const
      if (!(await eraseRepository(dependencies, id, event))) throw repositoryGone({ name })
    },
  }
}

/** The events of the settings that are no longer as they were. */
function eventsOf(
  actor: Actor,
  repositoryId: string,
  { former, changes }: { former: RepositorySettings; changes: Partial<RepositorySettings> },
): Event[] {
  const { description, leakGuard, runTokens, visibility, ownerUsername } = {
    ...former,
    ...changes,
  }
  const about = { actor, repositoryId }
  const events: Event[] = []
  if (description !== former.description)
    events.push({ kind: 'repository.description', ...about, data: { description } })
  if (leakGuard !== former.leakGuard)
    events.push({ kind: 'repository.leak_guard', ...about, data: { enabled: leakGuard === 'on' } })
  if (runTokens !== former.runTokens)
    events.push({ kind: 'repository.run_tokens', ...about, data: { access: runTokens } })
  if (visibility !== former.visibility) {
    const data = { visibility, formerVisibility: former.visibility }
    events.push({ kind: 'repository.visibility', ...about, data })
  }
  if (ownerUsername !== former.ownerUsername) {
    const data = { ownerUsername, formerOwnerUsername: former.ownerUsername }
    events.push({ kind: 'repository.transferred', ...about, data })
  }
  return events
}
