import type { Insertable, Updateable } from 'kysely'
import { sql } from 'kysely'
import { hasRowLocks } from '../database/row-locks.ts'
import type { Db, RunAttemptRow, RunRow, Schema } from '../database/schema.ts'
import { lockRepositorySummary } from '../repositories/repository-summary-store.ts'

export type NewRun = Insertable<Schema['runs']>
type Notifier = Updateable<Schema['runs']>

/** What a list and an answer tell of a run; not the files that it was started with. */
export type ListedRun = Omit<RunRow, 'sources' | 'payload'>

const listed = [
  ...(['id', 'repositoryId', 'number', 'name', 'branch', 'ref', 'commitId', 'event'] as const),
  ...(['inputs', 'files', 'labels', 'secretNames', 'actorId', 'actorUsername', 'status'] as const),
  ...(['conclusion', 'fault', 'attempt', 'createdAt', 'queuedAt', 'startedAt'] as const),
  ...(['completedAt', 'isolation', 'cancelReason', 'cancelledAt', 'runner', 'leaseUntil'] as const),
  ...(['tokenHash', 'losses', 'entries', 'logBytes', 'kept'] as const),
]

/** Counts a further run of a repository. Its counter stays locked until the transaction ends. */
export async function takeNumber(tx: Db, repositoryId: string): Promise<number> {
  await lockRepositorySummary(tx, repositoryId)
  const { last } = await tx
    .insertInto('runNumbers')
    .values({ repositoryId, last: 1 })
    .onConflict((row) =>
      row.column('repositoryId').doUpdateSet({ last: sql<number>`run_numbers.last + 1` }),
    )
    .returning('last')
    .executeTakeFirstOrThrow()
  return last
}

/** Has other changes to the runs of a repository wait until the transaction ends. */
export async function lockRuns(tx: Db, repositoryId: string): Promise<void> {
  await lockRepositorySummary(tx, repositoryId)
  await tx
    .updateTable('runNumbers')
    .set((is) => ({ last: is.ref('last') }))
    .where('repositoryId', '=', repositoryId)
    .execute()
}

export async function insertRun(tx: Db, run: NewRun, groups: string[]): Promise<void> {
  await tx.insertInto('runs').values(run).execute()
  if (groups.length === 0) return
  await tx
    .insertInto('runGroups')
    .values(groups.map((name) => ({ runId: run.id, name })))
    .execute()
}

export function findRun(db: Db, repositoryId: string, id: string): Promise<ListedRun | undefined> {
  return db
    .selectFrom('runs')
    .select(listed)
    .where('id', '=', id)
    .where('repositoryId', '=', repositoryId)
    .executeTakeFirst()
}

/** A run by its id alone: for whoever holds its token. */
export function findRunById(db: Db, id: string): Promise<ListedRun | undefined> {
  return db.selectFrom('runs').select(listed).where('id', '=', id).executeTakeFirst()
}

/** The same with all that it was started with, which may be long. */
export function findWholeRun(db: Db, id: string): Promise<RunRow | undefined> {
  return db.selectFrom('runs').selectAll().where('id', '=', id).executeTakeFirst()
}

/** The run that a token is for, by the token's hash. */
export function findRunByToken(db: Db, tokenHash: string): Promise<{ id: string } | undefined> {
  return db
    .selectFrom('runs')
    .select('id')
    .where('tokenHash', '=', tokenHash)
    .where('status', '=', 'running')
    .executeTakeFirst()
}

export type RunFilter = { branch?: string | undefined; status?: RunRow['status'] | undefined }

/** The runs of a repository before an id, newest first. */
export function listRuns(
  db: Db,
  repositoryId: string,
  { before, limit, branch, status }: RunFilter & { before: string; limit: number },
): Promise<ListedRun[]> {
  let query = db.selectFrom('runs').select(listed).where('repositoryId', '=', repositoryId)
  if (before !== '') query = query.where('id', '<', before)
  if (branch !== undefined) query = query.where('branch', '=', branch)
  if (status !== undefined) query = query.where('status', '=', status)
  return query.orderBy('id', 'desc').limit(limit).execute()
}

type State = {
  id: string
  status: RunRow['status']
  attempt?: number
  entries?: number
  tokenHash?: string
}

/** Changes a run that is in a certain state; undefined when it is in another, or gone. */
export function updateRun(
  db: Db,
  { id, status, attempt, entries, tokenHash }: State,
  changes: Notifier,
): Promise<ListedRun | undefined> {
  let query = db.updateTable('runs').set(changes).where('id', '=', id).where('status', '=', status)
  if (attempt !== undefined) query = query.where('attempt', '=', attempt)
  if (entries !== undefined) query = query.where('entries', '=', entries)
  if (tokenHash !== undefined) query = query.where('tokenHash', '=', tokenHash)
  return query.returning(listed).executeTakeFirst()
}

export async function countQueued(db: Db, repositoryId: string): Promise<number> {
  const { count } = await db
    .selectFrom('runs')
    .select((is) => is.fn.countAll<number | string>().as('count'))
    .where('repositoryId', '=', repositoryId)
    .where('status', '=', 'queued')
    .executeTakeFirstOrThrow()
  return Number(count)
}

// Said like this, as SQLite finds nothing by what a value is not.
const unfinished = ['queued', 'running'] as const

/** How many runs are in each state that is not `completed`. */
export function countUnfinished(
  db: Db,
): Promise<{ status: RunRow['status']; count: number | string }[]> {
  return db
    .selectFrom('runs')
    .select((is) => ['status', is.fn.countAll<number | string>().as('count')])
    .where('status', 'in', unfinished)
    .groupBy('status')
    .execute()
}

export type Unfinished = Pick<RunRow, 'id' | 'repositoryId' | 'status' | 'labels'>

/** Runs that wait or run, of all repositories or of one, oldest first. */
export function listUnfinished(db: Db, repositoryId?: string): Promise<Unfinished[]> {
  const query = db
    .selectFrom('runs')
    .select(['id', 'repositoryId', 'status', 'labels'])
    .where('status', 'in', unfinished)
    .orderBy('id')
  return (
    repositoryId === undefined ? query : query.where('repositoryId', '=', repositoryId)
  ).execute()
}

/** Ids of unfinished runs of a repository that are in one of some concurrency groups. */
export async function listInGroups(
  db: Db,
  {
    repositoryId,
    groups,
    status,
  }: { repositoryId: string; groups: string[]; status: RunRow['status'] },
): Promise<string[]> {
  if (groups.length === 0) return []
  const rows = await db
    .selectFrom('runGroups')
    .innerJoin('runs', 'runs.id', 'runGroups.runId')
    .select('runs.id')
    .distinct()
    .where('runs.repositoryId', '=', repositoryId)
    .where('runs.status', '=', status)
    .where('runGroups.name', 'in', groups)
    .execute()
  return rows.map(({ id }) => id)
}

export async function listGroups(db: Db, runId: string): Promise<string[]> {
  const rows = await db.selectFrom('runGroups').select('name').where('runId', '=', runId).execute()
  return rows.map(({ name }) => name)
}

/** Running runs whose lease has ended, or that were to end long ago. */
export function listOverdue(
  db: Db,
  {
    now,
    cancelledBefore,
    startedBefore,
  }: { now: number; cancelledBefore: number; startedBefore: number },
): Promise<ListedRun[]> {
  return db
    .selectFrom('runs')
    .select(listed)
    .where('status', '=', 'running')
    .where((is) =>
      is.or([
        is('leaseUntil', '<', now),
        is('cancelledAt', '<', cancelledBefore),
        is('startedAt', '<', startedBefore),
      ]),
    )
    .execute()
}

/** Running runs of one runner. */
export function listRunningOf(db: Db, runner: string): Promise<ListedRun[]> {
  return db
    .selectFrom('runs')
    .select(listed)
    .where('status', '=', 'running')
    .where('runner', '=', runner)
    .execute()
}

/** Forgets completed runs, but those that somebody has just now; how many. */
export async function deleteOldRuns(
  db: Db,
  completedBefore: number,
  most: number,
): Promise<number> {
  const old = db
    .selectFrom('runs')
    .select('id')
    .where('status', '=', 'completed')
    .where('completedAt', '<', completedBefore)
    .orderBy('completedAt')
    .limit(most)
    .$if(hasRowLocks(db), (rows) => rows.forUpdate().skipLocked())
  const { numDeletedRows } = await db
    .deleteFrom('runs')
    .where('id', 'in', old)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

/** The last successful run before another one of the same files on the same branch. */
export function findLastGreen(db: Db, run: ListedRun): Promise<ListedRun | undefined> {
  return db
    .selectFrom('runs')
    .select(listed)
    .where('repositoryId', '=', run.repositoryId)
    .where('branch', '=', run.branch)
    .where('files', '=', run.files)
    .where('conclusion', '=', 'success')
    .where('id', '<', run.id)
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()
}

export async function insertAttempt(tx: Db, attempt: RunAttemptRow): Promise<void> {
  await tx.insertInto('runAttempts').values(attempt).execute()
}

export function listAttempts(db: Db, runId: string): Promise<RunAttemptRow[]> {
  return db
    .selectFrom('runAttempts')
    .selectAll()
    .where('runId', '=', runId)
    .orderBy('attempt')
    .execute()
}
