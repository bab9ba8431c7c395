import type { Clock } from '#base/clock.ts'
import type { Database } from '#database/database.ts'
import { nameOf } from '#repositories/repository-store.ts'
import type { Report } from './maintenance.ts'
import { findMaintenance, requestMaintenance } from './maintenance-store.ts'

export type MaintenanceResult = { report: Report } | { fault: string }

/** Requests maintenance from the server that will run it, and reports the result. */
export type MaintenanceRequests = {
  /** Requests maintenance of a repository, whether or not it is due. */
  request: (repositoryId: string, wanted: 'quick' | 'full') => Promise<void>
  /** The result; undefined until the maintenance has ended. */
  findResult: (repositoryId: string) => Promise<MaintenanceResult | undefined>
}

export function createMaintenanceRequests({
  db,
  clock,
}: {
  db: Database
  clock: Clock
}): MaintenanceRequests {
  return {
    request: (repositoryId, wanted) =>
      requestMaintenance(db, { repositoryId, wanted, now: clock.now() }),

    async findResult(repositoryId) {
      const row = await findMaintenance(db, repositoryId)
      const isDeleted = (await nameOf(db, repositoryId)) === undefined
      if (!row || isDeleted) return { fault: 'The repository was deleted.' }
      if (row.wanted !== '') return undefined
      if (row.fault !== null) return { fault: row.fault }
      return { report: JSON.parse(row.report ?? '') }
    },
  }
}
