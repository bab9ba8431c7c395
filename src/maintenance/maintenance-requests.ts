import type { Clock } from '../base/clock.ts'
import type { Database } from '../database/database.ts'
import type { Report } from './maintenance.ts'
import { findMaintenance, requestMaintenance } from './maintenance-store.ts'

export type MaintenanceResult = { report: Report } | { fault: string }

/** Requests maintenance from the server that will run it, and reports the result. */
export function createMaintenanceRequests({ db, clock }: { db: Database; clock: Clock }) {
  return {
    /** Requests maintenance of a repository, whether or not it is due. */
    request: (repositoryId: string, wanted: 'quick' | 'full') =>
      requestMaintenance(db, { repositoryId, wanted, now: clock.now() }),

    /** The result; undefined until the maintenance has ended. */
    async findResult(repositoryId: string): Promise<MaintenanceResult | undefined> {
      const row = await findMaintenance(db, repositoryId)
      if (!row) return { fault: 'The repository was deleted.' }
      if (row.wanted !== '') return undefined
      if (row.fault !== null) return { fault: row.fault }
      return { report: JSON.parse(row.report ?? '') }
    },
  }
}
