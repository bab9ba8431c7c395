import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import { createPoller } from '#base/concurrency/poller.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import type { Log } from '#base/log.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { Db, ImportRow } from '#database/schema.ts'
import { recordActions } from '#events/audit/record.ts'
import type { Publish } from '#events/events.ts'
import { importFailed } from '#git/import/import-error.ts'
import type { Progress } from '#git/import/progress.ts'
import { claimName } from './claim-name.ts'
import type { Directories } from './directories.ts'
import {
  deleteFailedImports,
  deleteImport,
  insertImport,
  markFailed,
  updateProgress,
} from './import-store.ts'
import { nameTaken } from './repository-errors.ts'
import { deleteRepository, insertRepository, markReady, stateOf } from './repository-store.ts'

/** The rows of imports, from the reservation of a name to the repository or the failure. */
export type ImportRecords = {
  /** Reserves the name of the repository. */
  reserve: (principal: Principal, row: ImportRow) => Promise<void>
  /** Records the progress of an import until disposed, and cancels it when its repository has been deleted. */
  watchProgress: (
    row: ImportRow,
    progress: () => Progress,
    cancelled: AbortController,
    onProgress: ((progress: Progress) => void) | undefined,
  ) => AsyncDisposable
  /** Makes the repository ready, with what the store adds in the same transaction, and publishes its event. */
  complete: (
    owner: Principal,
    row: ImportRow,
    imported: { missingLfsObjects: number; completeAdoption: (tx: Db) => Promise<void> },
  ) => Promise<void>
  /** Removes a failed import: its files first, then its name. */
  remove: (id: string, fault: Problem | undefined) => Promise<void>
}

type Dependencies = {
  db: Database
  publish: Publish
  directories: Directories
  /** Reads the principal again; undefined when its token is no longer valid. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
  clock: Clock
  faultPoint: FaultPoint
  log: Log
}

const recordIntervalMs = 1000

export function createImportRecords(dependencies: Dependencies): ImportRecords {
  const { db, publish, directories, refresh, clock, faultPoint, log } = dependencies

  return {
    async reserve(principal, row) {
      const { name, nameKey, ownerTokenId, ownerUsername, startedAt: createdAt } = row
      const repository = { name, nameKey, ownerTokenId, ownerUsername, createdAt }
      await db.transaction().execute(async (tx) => {
        const isFree = await insertRepository(tx, {
          ...repository,
          id: row.repositoryId,
          state: 'importing',
        })
        if (!isFree) throw nameTaken(name)
        await claimName(tx, principal, { name, repositoryId: row.repositoryId, now: clock.now() })
        // In the order of `repositories.create`: the name is taken before earlier failures are deleted.
        await deleteFailedImports(tx, name)
        await insertImport(tx, row)
        await recordActions(tx, clock.now(), [
          {
            action: 'import.started',
            actor: principal,
            repositoryId: row.repositoryId,
            data: { name, source: row.source },
          },
        ])
      })
      faultPoint('import.reserved')
    },

    watchProgress({ repositoryId }, progress, cancelled, onProgress) {
      return createPoller({
        intervalMs: recordIntervalMs,
        async run() {
          onProgress?.(progress())
          const isWanted = await updateProgress(db, repositoryId, progress())
          if (!isWanted) cancelled.abort(cancelledByDeletion())
        },
        onError: (error) => log.warn({ err: error }, 'import progress not recorded'),
      })
    },

    async complete(owner, row, { missingLfsObjects, completeAdoption }) {
      if (!(await refresh(owner))) {
        throw new Problem('token_invalid', 'The token was deleted or has expired.')
      }
      const { repositoryId, source } = row
      await db.transaction().execute(async (tx) => {
        const imported = { importedAt: clock.now(), missingLfsObjects }
        if (!(await markReady(tx, repositoryId, imported))) throw cancelledByDeletion()
        await completeAdoption(tx)
        await deleteImport(tx, repositoryId)
        const data = { name: row.name, source }
        await publish(tx, clock.now(), [
          { kind: 'repository.imported', actor: owner, repositoryId, data },
        ])
      })
    },

    async remove(id, fault) {
      await directories.discard(id)
      // It may have been committed although the connection broke.
      if ((await stateOf(db, id)) === 'ready') return
      await directories.remove(id)
      await db.transaction().execute(async (tx) => {
        await deleteRepository(tx, id)
        if (!fault) return deleteImport(tx, id)
        await markFailed(tx, id, { code: fault.code, detail: fault.message, now: clock.now() })
      })
      faultPoint('import.cleared')
    },
  }
}

function cancelledByDeletion(): Problem {
  return importFailed('The import was cancelled because its repository was deleted.')
}
