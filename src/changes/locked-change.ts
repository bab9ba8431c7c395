import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { ChangeRow, Db } from '#database/schema.ts'
import type { Repository } from '#repositories/repositories.ts'
import { repositoryGone } from '#repositories/repository-errors.ts'
import { lockRepositorySummary } from '#repositories/repository-summary-store.ts'
import { lockChange } from './change-store.ts'

/** Runs a transaction with the present row of a change, which is locked until it ends. Throws `repository_not_found`. */
export function withLockedChange<T>(
  db: Database,
  { repository, change }: { repository: Repository; change: ChangeRow },
  work: (tx: Db, locked: ChangeRow) => Promise<T>,
): Promise<T> {
  return db.transaction().execute(async (tx) => {
    if (!(await lockRepositorySummary(tx, repository.id))) throw repositoryGone(repository)
    return work(tx, (await lockChange(tx, change)) ?? change)
  })
}

/** The Problem of a change that is landed or abandoned. */
export function changeClosed({ number, state }: ChangeRow): Problem {
  return new Problem('change_closed', `Change ${number} is ${state}.`)
}

/** Throws `version_outdated` unless a change has a version as its last one. */
export function requireLastVersion(change: ChangeRow, version: number): void {
  if (version === change.version) return
  const detail = `The last version of change ${change.number} is ${change.version}, not ${version}; look at it first.`
  throw new Problem('version_outdated', detail)
}
