import type { Principal } from '../access/principal.ts'
import type { Clock } from '../base/clock.ts'
import type { FaultPoint } from '../base/fault-points.ts'
import { newId } from '../base/ids.ts'
import type { Database } from '../database/database.ts'
import type { Actor, Publish } from '../events/events.ts'
import type { Store } from '../store/store.ts'
import type { RepositoryFields } from './describe-repository.ts'
import type { Directories } from './directories.ts'
import { deleteFailedImports, deleteImport } from './import-store.ts'
import { nameTaken, repositoryGone } from './repository-errors.ts'
import {
  deleteRepository,
  insertRepository,
  isNameTaken,
  stateOf,
  updateName,
} from './repository-store.ts'

type LifeCycle = {
  /** Creates an empty repository. Its directory is complete before its row exists. */
  create: (
    owner: Principal,
    wanted: { name: string; defaultBranch?: string | undefined },
  ) => Promise<RepositoryFields>
  /** Renames a repository; the old name is free at once. */
  rename: (actor: Actor, repository: RepositoryFields, name: string) => Promise<void>
  /**
   * Deletes a repository with all that belongs to it. Once its row is deleted, its files cannot be reached. A
   * running import is cancelled; for a failed import, its record is deleted.
   */
  remove: (
    actor: Actor,
    repository: RepositoryFields & { readonly ownerUsername: string },
  ) => Promise<void>
}

type Dependencies = {
  db: Database
  publish: Publish
  directories: Directories
  store: Store
  clock: Clock
  faultPoint: FaultPoint
  beforeRemove: (id: string) => Promise<void>
}

/** Creates, renames and deletes repositories, each with its event. */
export function createLifeCycle(dependencies: Dependencies): LifeCycle {
  const { db, directories, store, publish, clock, faultPoint, beforeRemove } = dependencies

  // A connection that breaks at a commit leaves its outcome unknown.
  async function isKnownAbsent(id: string): Promise<boolean> {
    return stateOf(db, id).then(
      (state) => state === undefined,
      () => false,
    )
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
        createdAt: clock.now(),
        state: 'ready',
        ...(await store.create(id, defaultBranch)),
      } as const
      try {
        await db.transaction().execute(async (tx) => {
          if (!(await insertRepository(tx, repository))) throw nameTaken(name)
          await deleteFailedImports(tx, name)
          const about = { actor: owner, repositoryId: id, data: { name } }
          await publish(tx, clock.now(), [{ kind: 'repository.created', ...about }])
        })
      } catch (error) {
        if (await isKnownAbsent(id)) await store.remove(id)
        throw error
      }
      faultPoint('create.recorded')
      return { ...repository, path: await store.at({ id, version: 0 }) }
    },

    async rename(actor, repository, name) {
      await db.transaction().execute(async (tx) => {
        if (repository.name === name) return
        const isOtherCase = repository.name.toLowerCase() === name.toLowerCase()
        if (!isOtherCase && (await isNameTaken(tx, name))) throw nameTaken(name)
        if (!(await updateName(tx, repository.id, name).catch(asTaken(name)))) {
          throw repositoryGone(repository)
        }
        await deleteFailedImports(tx, name)
        faultPoint('rename.updated')
        const data = { name, formerName: repository.name }
        const about = { actor, repositoryId: repository.id }
        await publish(tx, clock.now(), [{ kind: 'repository.renamed', ...about, data }])
      })
      faultPoint('rename.recorded')
    },

    async remove(actor, { id, name, state, ownerUsername }) {
      if (state === 'failed') return deleteImport(db, id)
      await beforeRemove(id)
      await directories.markForDeletion(id)
      try {
        await db.transaction().execute(async (tx) => {
          await store.release(tx, id)
          if (!(await deleteRepository(tx, id))) throw repositoryGone({ name })
          await deleteImport(tx, id)
          const about = { actor, repositoryId: id, data: { name, ownerUsername } }
          await publish(tx, clock.now(), [{ kind: 'repository.deleted', ...about }])
        })
      } catch (error) {
        if (!(await isKnownAbsent(id))) await directories.unmarkForDeletion(id)
        throw error
      }
      faultPoint('delete.recorded')
      await store.remove(id)
    },
  }
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
