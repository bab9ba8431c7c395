import type { Selectable } from 'kysely'
import { prepared } from '#database/prepared.ts'
import type { Db, MaintenanceRow } from '#database/schema.ts'

/** The visible state of a repository's maintenance; `finishedAt` is the end of the last successful one. */
export type MaintenanceState = {
  state: 'idle' | 'pending' | 'running' | 'failed'
  finishedAt: number | null
}

const shown = ['wanted', 'leaseUntil', 'fault', 'finishedAt'] as const
type Shown = (typeof shown)[number]

const byRepository = prepared((db, by: { repositoryId: string }) =>
  db.selectFrom('maintenance').select(shown).where('repositoryId', '=', by.repositoryId),
)

export async function findMaintenanceState(
  db: Db,
  repositoryId: string,
  now: number,
): Promise<MaintenanceState> {
  const [row] = await byRepository(db, { repositoryId })
  return row ? toMaintenanceState(row, now) : { state: 'idle', finishedAt: null }
}

function toMaintenanceState(
  { wanted, leaseUntil, fault, finishedAt }: Pick<Selectable<MaintenanceRow>, Shown>,
  now: number,
): MaintenanceState {
  if (leaseUntil >= now) return { state: 'running', finishedAt }
  if (wanted !== '') return { state: 'pending', finishedAt }
  return { state: fault === null ? 'idle' : 'failed', finishedAt }
}
