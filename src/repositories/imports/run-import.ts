import { credentialEnded } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import { createPoller } from '#base/concurrency/poller.ts'
import { type Problem, toProblem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { ImportRow } from '#database/schema.ts'
import { recordActions } from '#events/audit/record.ts'
import type { Publish } from '#events/events.ts'
import { importFailed } from '#git/import/import-error.ts'
import type { Progress } from '#git/import/progress.ts'
import { claimName } from '../claim-name.ts'
import {
  deleteFailedImports,
  deleteImport,
  insertImport,
  markFailed,
  updateProgress,
} from '../import-store.ts'
import { deleteLfsObjectsOf } from '../lfs-object-store.ts'
import { enforceByteLimit, enforceRepositoryLimit } from '../namespace-limits.ts'
import { holdPlace, type Place, requireSingleUse } from '../place-name.ts'
import { nameTaken } from '../repository-errors.ts'
import { updatePackBytes } from '../repository-size-store.ts'
import { deleteRepository, insertRepository, markReady, stateOf } from '../repository-store.ts'
import { abandonUploads } from '../store/pack-store.ts'
import type { Store } from '../store/store.ts'
import { type JobDependencies, makeDraft, watchImport } from './import-job.ts'
import type { Source } from './source-address.ts'

/** The steps of an import, from the reservation of a name to the repository or the failure. */
export type ImportSteps = {
  /** Reserves the name of the repository. */
  reserve: (principal: Principal, row: ImportRow, place: Place) => Promise<void>
  /** Runs an import to its end, and records that. Throws the Problem of a failure, after its files are removed. */
  run: (
    principal: Principal,
    row: ImportRow,
    source: Source,
    options: ImportOptions,
  ) => Promise<void>
  /** Removes a failed import: its files first, then its name. */
  remove: (id: string, fault: Problem | undefined) => Promise<void>
}

export type ImportDependencies = JobDependencies & {
  db: Database
  store: Pick<Store, 'adopt' | 'packBytes'>
  publish: Publish
  /** Reads the principal again; undefined when its token is no longer valid. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
  clock: Clock
}

export type ImportOptions = {
  /** URL or path; see parseSource. */
  source: string
  /** The name of the repository; by default that of the source. */
  name: string | undefined
  /** The owner; by default the caller. */
  owner?: Principal
  /** Cancels the import, with its reason. */
  signal?: AbortSignal
  /** Whether a failure is recorded for later requests. */
  recordsFailure: boolean
  /** Called about once a second. */
  onProgress?: (progress: Progress) => void
}

const recordIntervalMs = 1000

/** `stopping` cancels all imports, with its reason. */
export function createImportSteps(
  dependencies: ImportDependencies,
  stopping: AbortSignal,
): ImportSteps {
  const { db, publish, directories, store, sources, settings, refresh } = dependencies
  const { clock, faultPoint, log } = dependencies

  async function complete(
    principal: Principal,
    row: ImportRow,
    source: Source,
    options: ImportOptions,
  ): Promise<void> {
    const { repositoryId: id, name } = row
    const { onProgress, owner = principal } = options
    const cancelled = new AbortController()
    const signals = [stopping, cancelled.signal, ...(options.signal ? [options.signal] : [])]
    using watched = watchImport(id, signals, dependencies)
    await using _recording = createPoller({
      intervalMs: recordIntervalMs,
      async run() {
        onProgress?.(watched.progress())
        const isWanted = await updateProgress(db, id, watched.progress())
        if (!isWanted) cancelled.abort(cancelledByDeletion())
      },
      onError: (error) => log.warn({ err: error }, 'import progress not recorded'),
    })
    const open = () =>
      sources.open(principal, source, {
        scratch: directories.scratchOf(id, 'source'),
        maxBytes: settings.importMaxBytes,
        signal: watched.signal,
        onArrival: () => watched.onProgress(''),
      })
    const made = await makeDraft(id, open, watched, dependencies)
    watched.signal.throwIfAborted()
    // Removes the copy of a local source at the same time, to save waiting.
    const [completeAdoption] = await Promise.all([
      store.adopt(id),
      directories.removeScratch(id, 'source'),
    ])
    faultPoint('import.placed')
    if (!(await refresh(owner))) throw credentialEnded('token')
    await db.transaction().execute(async (tx) => {
      const imported = { importedAt: clock.now(), ...made }
      if (!(await markReady(tx, id, imported))) throw cancelledByDeletion()
      await completeAdoption(tx)
      const packBytes = await store.packBytes(id, tx)
      await updatePackBytes(tx, id, packBytes)
      await enforceByteLimit(tx, id, packBytes)
      await deleteImport(tx, id)
      const about = { actor: owner, repositoryId: id, data: { name, source: row.source } }
      await publish(tx, clock.now(), [{ kind: 'repository.imported', ...about }])
    })
    faultPoint('import.recorded')
    await directories.unmarkForDeletion(id)
  }

  async function fail(row: ImportRow, problem: Problem, options: ImportOptions): Promise<void> {
    const { repositoryId: id, name, source: from } = row
    const about = { repositoryId: id, name, source: from, reason: problem.message }
    const cause = problem.cause === undefined ? {} : { err: problem.cause }
    // An asynchronous import has no response that would show a bug.
    const isBug = problem.code === 'internal_error'
    log[isBug ? 'error' : 'info']({ ...about, ...cause }, 'import failed')
    await remove(id, options.recordsFailure ? problem : undefined).catch((fault) =>
      log.error({ err: fault, ...about }, 'import not cleaned up; retrying later'),
    )
  }

  async function remove(id: string, fault: Problem | undefined): Promise<void> {
    await directories.discard(id)
    // It may have been committed although the connection broke.
    if ((await stateOf(db, id)) === 'ready') return
    await directories.remove(id)
    await db.transaction().execute(async (tx) => {
      await abandonUploads(tx, await deleteLfsObjectsOf(tx, id))
      await deleteRepository(tx, id)
      if (!fault) return deleteImport(tx, id)
      await markFailed(tx, id, { code: fault.code, detail: fault.message, now: clock.now() })
    })
    faultPoint('import.cleared')
  }

  return {
    async reserve(principal, row, place) {
      const { name, nameKey, ownerTokenId, ownerUsername, startedAt: createdAt } = row
      const { repositoryId, source } = row
      const namespaceId = place?.id ?? null
      const repository = { name, nameKey, namespaceId, ownerTokenId, ownerUsername, createdAt }
      await db.transaction().execute(async (tx) => {
        await holdPlace(tx, place)
        const importing = { ...repository, id: repositoryId, state: 'importing' } as const
        if (!(await insertRepository(tx, importing))) throw nameTaken(name)
        await enforceRepositoryLimit(tx, repositoryId)
        await claimName(tx, principal, { name, repositoryId, now: clock.now() })
        // In the order of `repositories.create`: the name is taken before earlier failures are deleted.
        await deleteFailedImports(tx, name)
        await insertImport(tx, row)
        const about = { actor: principal, repositoryId, data: { name, source } }
        await recordActions(tx, clock.now(), [{ action: 'import.started', ...about }])
        await requireSingleUse(tx, name)
      })
      faultPoint('import.reserved')
    },

    async run(principal, row, source, options) {
      try {
        await complete(principal, row, source, options)
        await directories.discard(row.repositoryId)
      } catch (error) {
        const problem = toProblem(error)
        await fail(row, problem, options)
        throw problem
      }
    },

    remove,
  }
}

function cancelledByDeletion(): Problem {
  return importFailed('The import was cancelled because its repository was deleted.')
}
