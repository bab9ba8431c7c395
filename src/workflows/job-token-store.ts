import type { Db, JobTokenRow, RunRow } from '#database/schema.ts'

/** Replaces the tokens of the jobs of a run. */
export async function replaceJobTokens(
  tx: Db,
  runId: string,
  tokens: readonly JobTokenRow[],
): Promise<void> {
  await tx.deleteFrom('jobTokens').where('runId', '=', runId).execute()
  if (tokens.length > 0) await tx.insertInto('jobTokens').values(tokens).execute()
}

export type LiveJobToken = JobTokenRow &
  Pick<RunRow, 'repositoryId' | 'number' | 'causeId' | 'actorId' | 'actorUsername' | 'isRestricted'>

/** Finds a token of jobs whose run is running, and was not claimed again since. */
export function findJobToken(db: Db, tokenHash: string): Promise<LiveJobToken | undefined> {
  return db
    .selectFrom('jobTokens')
    .innerJoin('runs', (join) =>
      join
        .onRef('runs.id', '=', 'jobTokens.runId')
        .onRef('runs.tokenHash', '=', 'jobTokens.claim')
        .on('runs.status', '=', 'running'),
    )
    .selectAll('jobTokens')
    .select([
      'runs.repositoryId',
      'runs.number',
      'runs.causeId',
      'runs.actorId',
      'runs.actorUsername',
      'runs.isRestricted',
    ])
    .where('jobTokens.tokenHash', '=', tokenHash)
    .executeTakeFirst()
}
