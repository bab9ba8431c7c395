import { type Insertable, sql, type Updateable } from 'kysely'
import { hasRowLocks } from '#database/row-locks.ts'
import type { Db, PushRunOptions, RunAttemptRow, RunRow, Schema } from '#database/schema.ts'
import { repositoryDeleted } from '#repositories/repository-errors.ts'
import { lockRepositorySummary } from '#repositories/repository-summary-store.ts'

export type NewRun = Insertable<Schema['runs']>
type Notifier = Updateable<Schema['runs']>

/** The columns of a run that the API shows; without the files and the payload, which may be long, and its first cause. */
export type ListedRun = Omit<RunRow, 'sources' | 'payload' | 'causeId'>

const listed = [
  ...(['id', 'repositoryId', 'number', 'name', 'branch', 'ref', 'commitId', 'event'] as const),
  ...(['inputs', 'files', 'labels', 'secretNames', 'actorId', 'actorUsername', 'status'] as const),
  ...(['conclusion', 'fault', 'attempt', 'createdAt', 'queuedAt', 'startedAt'] as const),
  ...(['completedAt', 'isolation', 'cancelReason', 'cancelledAt', 'runner', 'leaseUntil'] as const),
  ...(['tokenHash', 'losses', 'entries', 'logBytes', 'kept', 'awaitedBy'] as const),
  ...(['awaitedPack', 'grants', 'isRestricted', 'needsApproval'] as const),
]

/** Takes the next run number of a repository. The counter stays locked until the transaction ends. Throws `repository_not_found`. */
export async function takeNumber(tx: Db, repositoryId: string): Promise<number> {
  if (!(await lockRepositorySummary(tx, repositoryId))) throw repositoryDeleted()
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

/** Locks the runs of a repository against other changes until the transaction ends. Throws `repository_not_found`. */
export async function lockRuns(tx: Db, repositoryId: string): Promise<void> {
  if (!(await lockRepositorySummary(tx, repositoryId))) throw repositoryDeleted()
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

export function findRunByNumber(
  db: Db,
  repositoryId: string,
  number: number,
): Promise<ListedRun | undefined> {
  return db
    .selectFrom('runs')
    .select(listed)
    .where('repositoryId', '=', repositoryId)
    .where('number', '=', number)
    .executeTakeFirst()
}

/** Finds a run by its id alone, for requests that are authorized by its token. */
export function findRunById(db: Db, id: string): Promise<ListedRun | undefined> {
  return db.selectFrom('runs').select(listed).where('id', '=', id).executeTakeFirst()
}

/** Finds a run with all columns, including the files and the payload. */
export function findWholeRun(db: Db, id: string): Promise<RunRow | undefined> {
  return db.selectFrom('runs').selectAll().where('id', '=', id).executeTakeFirst()
}

/** Finds the running run of a token. */
export function findRunByToken(db: Db, tokenHash: string): Promise<{ id: string } | undefined> {
  return db
    .selectFrom('runs')
    .select('id')
    .where('tokenHash', '=', tokenHash)
    .where('status', '=', 'running')
    .executeTakeFirst()
}

export type RunFilter = {
  branch?: string | undefined
  name?: string | undefined
  status?: RunRow['status'] | undefined
  conclusion?: RunRow['conclusion'] | undefined
}

/** Lists the runs of a repository before an id, newest first. */
export function listRuns(
  db: Db,
  repositoryId: string,
  {
    before,
    limit,
    branch,
    name,
    status,
    conclusion,
  }: RunFilter & { before: string; limit: number },
): Promise<ListedRun[]> {
  let query = db.selectFrom('runs').select(listed).where('repositoryId', '=', repositoryId)
  if (before !== '') query = query.where('id', '<', before)
  if (branch !== undefined) query = query.where('branch', '=', branch)
  if (name !== undefined) query = query.where('name', '=', name)
  if (status !== undefined) query = query.where('status', '=', status)
  if (conclusion !== undefined) query = query.where('conclusion', '=', conclusion)
  return query.orderBy('id', 'desc').limit(limit).execute()
}

type State = {
  id: string
  status: RunRow['status']
  attempt?: number
  entries?: number
  tokenHash?: string
  needsApproval?: number
}

/** Updates a run if it is in the given state; undefined when it is not, or does not exist. */
export function updateRun(
  db: Db,
  { id, status, attempt, entries, tokenHash, needsApproval }: State,
  changes: Notifier,
): Promise<ListedRun | undefined> {
  let query = db.updateTable('runs').set(changes).where('id', '=', id).where('status', '=', status)
  if (attempt !== undefined) query = query.where('attempt', '=', attempt)
  if (entries !== undefined) query = query.where('entries', '=', entries)
  if (needsApproval !== undefined) query = query.where('needsApproval', '=', needsApproval)
  if (tokenHash !== undefined) query = query.where('tokenHash', '=', tokenHash)
  return query.returning(listed).executeTakeFirst()
}

/** Counts the queued runs of a repository, without those that wait for an approval; or the restricted ones, with them. */
export async function countQueued(
  db: Db,
  repositoryId: string,
  { onlyRestricted = false } = {},
): Promise<number> {
  const { count } = await db
    .selectFrom('runs')
    .select((is) => is.fn.countAll<number | string>().as('count'))
    .where('repositoryId', '=', repositoryId)
    .where('status', '=', 'queued')
    .where(onlyRestricted ? 'isRestricted' : 'needsApproval', '=', Number(onlyRestricted))
    .executeTakeFirstOrThrow()
  return Number(count)
}

// Listed, because SQLite uses no index for `<>`.
const unfinished = ['queued', 'running'] as const

/** Counts the runs in each state other than `completed`, without those that wait for an approval. */
export function countUnfinished(
  db: Db,
): Promise<{ status: RunRow['status']; count: number | string }[]> {
  return db
    .selectFrom('runs')
    .select((is) => ['status', is.fn.countAll<number | string>().as('count')])
    .where('status', 'in', unfinished)
    .where('needsApproval', '=', 0)
    .groupBy('status')
    .execute()
}

export type Unfinished = Pick<
  RunRow,
  'id' | 'repositoryId' | 'actorUsername' | 'status' | 'labels' | 'needsApproval'
>

/** Lists queued and running runs of all repositories or of one, oldest first. */
export function listUnfinished(db: Db, repositoryId?: string): Promise<Unfinished[]> {
  const query = db
    .selectFrom('runs')
    .select(['id', 'repositoryId', 'actorUsername', 'status', 'labels', 'needsApproval'])
    .where('status', 'in', unfinished)
    .orderBy('id')
  return (
    repositoryId === undefined ? query : query.where('repositoryId', '=', repositoryId)
  ).execute()
}

/** Lists the queued and running runs of a repository for refs below a prefix. */
export function listUnfinishedBelow(
  db: Db,
  repositoryId: string,
  prefix: string,
): Promise<Pick<RunRow, 'id' | 'ref' | 'status' | 'isRestricted' | 'needsApproval'>[]> {
  return db
    .selectFrom('runs')
    .select(['id', 'ref', 'status', 'isRestricted', 'needsApproval'])
    .where('status', 'in', unfinished)
    .where('repositoryId', '=', repositoryId)
    .where('ref', 'like', `${prefix}%`)
    .execute()
}

/** Lists the queued and running runs that a push waits for, except cancelled ones. None waits for a later attempt. */
export function listAwaited(db: Db): Promise<Pick<RunRow, 'id' | 'awaitedBy'>[]> {
  return db
    .selectFrom('runs')
    .select(['id', 'awaitedBy'])
    .where('status', 'in', unfinished)
    .where('awaitedBy', 'is not', null)
    .where('attempt', '=', 1)
    .where('cancelReason', 'is', null)
    .execute()
}

/** Lists the ids of a repository's runs with a status in any of the concurrency groups. */
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

/** Lists running runs whose lease has expired, or that should have ended long ago. */
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

export function listRunningOf(db: Db, runner: string): Promise<ListedRun[]> {
  return db
    .selectFrom('runs')
    .select(listed)
    .where('status', '=', 'running')
    .where('runner', '=', runner)
    .execute()
}

/** Deletes completed runs, skipping rows that another transaction has locked. Returns their number. */
export async function deleteOldRuns(
  db: Db,
  completedBefore: number,
  limit: number,
): Promise<number> {
  const old = db
    .selectFrom('runs')
    .select('id')
    .where('status', '=', 'completed')
    .where('completedAt', '<', completedBefore)
    .orderBy('completedAt')
    .limit(limit)
    .$if(hasRowLocks(db), (rows) => rows.forUpdate().skipLocked())
  const { numDeletedRows } = await db
    .deleteFrom('runs')
    .where('id', 'in', old)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

/** Finds the last successful run before `run` with the same files and branch. Ids of different servers have no order. */
export function findLastGreen(db: Db, run: ListedRun): Promise<ListedRun | undefined> {
  return db
    .selectFrom('runs')
    .select(listed)
    .where('repositoryId', '=', run.repositoryId)
    .where('branch', '=', run.branch)
    .where('files', '=', run.files)
    .where('conclusion', '=', 'success')
    .where('number', '<', run.number)
    .orderBy('number', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/** Whether a workflow file has a successful run at a commit. */
export async function hasSuccessfulRun(
  db: Db,
  { repositoryId, commit, file }: { repositoryId: string; commit: string; file: string },
): Promise<boolean> {
  const rows = await db
    .selectFrom('runs')
    .select('files')
    .where('repositoryId', '=', repositoryId)
    .where('commitId', '=', commit)
    .where('conclusion', '=', 'success')
    .execute()
  return rows.some(({ files }) => (JSON.parse(files) as string[]).includes(file))
}

/** Whether a workflow file has a run at a commit that is neither restricted nor cancelled. */
export async function hasOwnRun(
  db: Db,
  { repositoryId, commit, file }: { repositoryId: string; commit: string; file: string },
): Promise<boolean> {
  const rows = await db
    .selectFrom('runs')
    .select(['files', 'conclusion'])
    .where('repositoryId', '=', repositoryId)
    .where('commitId', '=', commit)
    .where('isRestricted', '=', 0)
    .execute()
  return rows.some(
    ({ files, conclusion }) =>
      conclusion !== 'cancelled' && (JSON.parse(files) as string[]).includes(file),
  )
}

export async function insertAttempt(tx: Db, attempt: RunAttemptRow): Promise<void> {
  await tx.insertInto('runAttempts').values(attempt).execute()
}

export function listRunAttempts(db: Db, runId: string): Promise<RunAttemptRow[]> {
  return db
    .selectFrom('runAttempts')
    .selectAll()
    .where('runId', '=', runId)
    .orderBy('attempt')
    .execute()
}

/** Finds the options of a push for its runs. */
export async function findPushRunOptions(
  db: Db,
  pushId: string | undefined,
): Promise<PushRunOptions> {
  if (pushId === undefined) return {}
  const row = await db
    .selectFrom('pushes')
    .select('runOptions')
    .where('id', '=', pushId)
    .executeTakeFirst()
  return row?.runOptions ? JSON.parse(row.runOptions) : {}
}
