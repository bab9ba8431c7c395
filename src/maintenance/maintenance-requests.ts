import type { Clock } from '../base/clock.ts'
import type { Database } from '../database/database.ts'
import type { Report } from './maintenance.ts'
import { findMaintenance, requestMaintenance } from './maintenance-store.ts'

/** What came of a request. */
export type Answer = { report: Report } | { fault: string }

/** Asks for maintenance, whoever it is that will do it. */
export function createMaintenanceRequests({ db, clock }: { db: Database; clock: Clock }) {
  return {
    /** Asks for one repository, whether it is due or not. */
    ask: (repositoryId: string, wanted: 'quick' | 'full') =>
      requestMaintenance(db, { repositoryId, wanted, now: clock.now() }),

    /** What came of it; undefined as long as it is not done. */
    async answer(repositoryId: string): Promise<Answer | undefined> {
      const row = await findMaintenance(db, repositoryId)
      if (!row) return { fault: 'The repository is gone.' }
      if (row.wanted !== '') return undefined
      if (row.fault !== null) return { fault: row.fault }
      return { report: JSON.parse(row.report ?? '') }
    },
  }
}
