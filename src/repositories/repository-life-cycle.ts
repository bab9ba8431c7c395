import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import { newId } from '#base/ids.ts'
import type { Database } from '#database/database.ts'
import type { LeakGuardState, RunTokenAccess } from '#database/schema.ts'
import type { Actor, Event, Publish } from '#events/events.ts'
import { claimName, keepFormerName } from './claim-name.ts'
import type {
  Deletable,
  DeletedRepositories,
  RepositoryBelongings,
} from './deleted-repositories.ts'
import type { RepositoryFields } from './describe-repository.ts'
import type { Directories } from './directories.ts'
import { eraseRepository, isKnownAbsent } from './erase-repository.ts'
import { deleteFailedImports, deleteImport } from './import-store.ts'
import { asTaken, nameTaken, repositoryGone } from './repository-errors.ts'
import {
  insertRepository,
  isNameTaken,
  type RepositorySettings,
  updateName,
  updateSettings,
} from './repository-store.ts'
import type { Store } from './store/store.ts'

type LifeCycle = {
  /** Creates an empty repository. Its directory is complete before its row exists. */
  create: (
    owner: Principal,
    wanted: { name: string; defaultBranch?: string | undefined },
  ) => Promise<RepositoryFields>
  /** Renames a repository. For 90 days, the old name leads to it, and only its owner and admins can take it. */
  rename: (actor: Principal, repository: RepositoryFields, name: string) => Promise<void>
  setDescription: (actor: Actor, repository: RepositoryFields, description: string) => Promise<void>
  setLeakGuard: (actor: Actor, repository: RepositoryFields, state: LeakGuardState) => Promise<void>
  setRunTokens: (
    actor: Actor,
    repository: RepositoryFields,
    access: RunTokenAccess,
  ) => Promise<void>
  /**
   * Deletes a repository with all that belongs to it, for good unless it is retained. A running import is cancelled; for a
   * failed import, its record is deleted.
   */
  remove: (actor: Actor, repository: Deletable) => Promise<void>
}

type Dependencies = {
  db: Database
  publish: Publish
  directories: Directories
  store: Store
  clock: Clock
  faultPoint: FaultPoint
  deletedRepositories: Pick<DeletedRepositories, 'isRetained' | 'retain'>
  belongings: RepositoryBelongings
}

/** Creates, renames and deletes repositories, each with its event. */
export function createLifeCycle(dependencies: Dependencies): LifeCycle {
  const { db, store, publish, clock, faultPoint, deletedRepositories, belongings } = dependencies

  /** Changes a setting of a repository, with the event that says so. */
  async function set<K extends keyof RepositorySettings>(
    repository: RepositoryFields,
    [key, value]: [K, RepositorySettings[K]],
    event: Event,
  ): Promise<void> {
    await db.transaction().execute(async (tx) => {
      const former = await updateSettings(tx, repository.id, { [key]: value })
      if (!former) throw repositoryGone(repository)
      if (former[key] !== value) await publish(tx, clock.now(), [event])
    })
  }

  return {
    async create(owner, { name, defaultBranch }) {
      if (await isNameTaken(db, name)) throw nameTaken(name)
      const id = newId(clock.now())
      const repository = {
        id,
        name,
        nameKey: name.toLowerCase(),
        ownerTokenId: owner.id,
        ownerUsername: owner.username,
        description: '',
        createdAt: clock.now(),
        pushedAt: null,
        state: 'ready',
        leakGuard: 'on',
        runTokens: 'read',
        headChosen: defaultBranch === undefined ? 0 : 1,
        ...(await store.create(id, defaultBranch)),
      } as const
      try {
        await db.transaction().execute(async (tx) => {
          if (!(await insertRepository(tx, repository))) throw nameTaken(name)
          await claimName(tx, owner, { name, repositoryId: id, now: clock.now() })
          await deleteFailedImports(tx, name)
          const about = { actor: owner, repositoryId: id, data: { name } }
          await publish(tx, clock.now(), [{ kind: 'repository.created', ...about }])
        })
      } catch (error) {
        if (await isKnownAbsent(db, id)) await store.remove(id)
        throw error
      }
      faultPoint('create.recorded')
      const { path } = await store.at({ id, version: 0 })
      return { ...repository, path }
    },

    setDescription(actor, repository, description) {
      const about = { actor, repositoryId: repository.id, data: { description } }
      const event = { kind: 'repository.description', ...about } as const
      return set(repository, ['description', description], event)
    },

    setLeakGuard(actor, repository, state) {
      const about = { actor, repositoryId: repository.id, data: { enabled: state === 'on' } }
      const event = { kind: 'repository.leak_guard', ...about } as const
      return set(repository, ['leakGuard', state], event)
    },

    setRunTokens(actor, repository, access) {
      const about = { actor, repositoryId: repository.id, data: { access } }
      const event = { kind: 'repository.run_tokens', ...about } as const
      return set(repository, ['runTokens', access], event)
    },

    async rename(actor, repository, name) {
      await db.transaction().execute(async (tx) => {
        if (repository.name === name) return
        const isOtherCase = repository.name.toLowerCase() === name.toLowerCase()
        if (!isOtherCase && (await isNameTaken(tx, name))) throw nameTaken(name)
        const { id: repositoryId } = repository
        const formerName = await updateName(tx, repositoryId, name).catch(asTaken(name))
        if (formerName === undefined) throw repositoryGone(repository)
        const now = clock.now()
        await claimName(tx, actor, { name, repositoryId, now })
        if (formerName.toLowerCase() !== name.toLowerCase())
          await keepFormerName(tx, { name: formerName, repositoryId, now })
        await deleteFailedImports(tx, name)
        faultPoint('rename.updated')
        const data = { name, formerName }
        await publish(tx, now, [{ kind: 'repository.renamed', actor, repositoryId, data }])
      })
      faultPoint('rename.recorded')
    },

    async remove(actor, repository) {
      const { id, name, state, ownerUsername } = repository
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
