import type { CommitStatusRow, Db, RunRow } from '#database/schema.ts'

type OfCommit = Pick<CommitStatusRow, 'repositoryId' | 'commitId'>

/** Saves what a user reports of a commit in a context, in place of what they reported before. */
export async function saveStatus(tx: Db, row: CommitStatusRow): Promise<void> {
  const { id, state, description, targetUrl, createdAt } = row
  await tx
    .insertInto('commitStatuses')
    .values(row)
    .onConflict((conflict) =>
      conflict
        .columns(['repositoryId', 'commitId', 'context', 'username'])
        .doUpdateSet({ id, state, description, targetUrl, createdAt }),
    )
    .execute()
}

/** Lists the statuses of a commit, the newest first. */
export function listStatuses(db: Db, of: OfCommit): Promise<CommitStatusRow[]> {
  return ofCommit(db, of).selectAll().orderBy('id', 'desc').execute()
}

/** Finds what was last reported of a commit in a context, by one of some users if they are given. */
export function findNewestStatus(
  db: Db,
  { context, ...of }: OfCommit & Pick<CommitStatusRow, 'context'>,
  by?: readonly string[],
): Promise<Pick<CommitStatusRow, 'state' | 'username' | 'createdAt'> | undefined> {
  return ofCommit(db, of)
    .select(['state', 'username', 'createdAt'])
    .where('context', '=', context)
    .$if(by !== undefined, (rows) => rows.where('username', 'in', by ?? []))
    .orderBy('createdAt', 'desc')
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/** Whether a context was ever reported in a repository, by one of some users if they are given. */
export async function hasReported(
  db: Db,
  { repositoryId, context }: Pick<CommitStatusRow, 'repositoryId' | 'context'>,
  by?: readonly string[],
): Promise<boolean> {
  const row = await db
    .selectFrom('commitStatuses')
    .select('id')
    .where('repositoryId', '=', repositoryId)
    .where('context', '=', context)
    .$if(by !== undefined, (rows) => rows.where('username', 'in', by ?? []))
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

type StatusCounts = Pick<CommitStatusRow, 'commitId'> & {
  contexts: number
  succeeded: number
  pending: number
}

/** Counts the newest statuses of the contexts of some commits, by their state; without commits that have none. */
export async function countNewestStatuses(
  db: Db,
  repositoryId: string,
  commitIds: readonly string[],
): Promise<StatusCounts[]> {
  const rows = await db
    .selectFrom(
      db
        .selectFrom('commitStatuses')
        .select(['commitId', 'state'])
        .select((is) =>
          is.fn
            .agg<number>('row_number')
            .over((over) =>
              over
                .partitionBy(['commitId', 'context'])
                .orderBy('createdAt', 'desc')
                .orderBy('id', 'desc'),
            )
            .as('place'),
        )
        .where('repositoryId', '=', repositoryId)
        .where('commitId', 'in', commitIds)
        .as('placed'),
    )
    .where('place', '=', 1)
    .groupBy('commitId')
    .select((is) => {
      const ofState = (state: CommitStatusRow['state']) =>
        is.fn.countAll<number>().filterWhere('state', '=', state)
      return [
        'commitId',
        is.fn.countAll<number>().as('contexts'),
        ofState('success').as('succeeded'),
        ofState('pending').as('pending'),
      ]
    })
    .execute()
  return rows.map(({ commitId, contexts, succeeded, pending }) => ({
    ...{ commitId, contexts: Number(contexts) },
    ...{ succeeded: Number(succeeded), pending: Number(pending) },
  }))
}

export async function countStatuses(db: Db, of: OfCommit): Promise<number> {
  const { count } = await ofCommit(db, of)
    .select((is) => is.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return Number(count)
}

function ofCommit(db: Db, { repositoryId, commitId }: OfCommit) {
  return db
    .selectFrom('commitStatuses')
    .where('repositoryId', '=', repositoryId)
    .where('commitId', '=', commitId)
}

type RunOfCommit = Pick<
  RunRow,
  | 'id'
  | 'number'
  | 'name'
  | 'files'
  | 'status'
  | 'conclusion'
  | 'fault'
  | 'actorUsername'
  | 'queuedAt'
>

/** Lists the newest runs of a commit, the newest first. */
export function listRunsOfCommit(
  db: Db,
  { repositoryId, commitId }: OfCommit,
  limit: number,
): Promise<RunOfCommit[]> {
  return db
    .selectFrom('runs')
    .select(['id', 'number', 'name', 'files', 'status', 'conclusion', 'fault'])
    .select(['actorUsername', 'queuedAt'])
    .where('repositoryId', '=', repositoryId)
    .where('commitId', '=', commitId)
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
}
