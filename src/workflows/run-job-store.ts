import { type ExpressionBuilder, sql, type Updateable } from 'kysely'
import type { Db, RunConclusion, RunJobRow, RunStepRow, Schema } from '#database/schema.ts'

/** An attempt of a run. */
export type OfAttempt = { runId: string; attempt: number }

export async function insertJob(tx: Db, job: RunJobRow): Promise<void> {
  await tx.insertInto('runJobs').values(job).execute()
}

export async function insertStep(tx: Db, step: RunStepRow): Promise<void> {
  await tx.insertInto('runSteps').values(step).execute()
}

export async function updateJob(
  tx: Db,
  { runId, attempt, job }: OfAttempt & { job: number },
  changes: Updateable<RunJobRow>,
): Promise<void> {
  await tx
    .updateTable('runJobs')
    .set(changes)
    .where('runId', '=', runId)
    .where('attempt', '=', attempt)
    .where('job', '=', job)
    .execute()
}

export async function updateStep(
  tx: Db,
  { runId, attempt, step }: OfAttempt & { step: number },
  changes: Updateable<RunStepRow>,
): Promise<void> {
  await tx
    .updateTable('runSteps')
    .set(changes)
    .where('runId', '=', runId)
    .where('attempt', '=', attempt)
    .where('step', '=', step)
    .execute()
}

/** Completes all jobs and steps of an attempt that have not completed. */
export async function endJobsAndSteps(
  tx: Db,
  { runId, attempt }: OfAttempt,
  end: { conclusion: RunConclusion; at: number },
): Promise<void> {
  const changes = { status: 'completed', conclusion: end.conclusion, completedAt: end.at } as const
  for (const table of ['runJobs', 'runSteps'] as const) {
    await tx
      .updateTable(table)
      .set(changes)
      .where('runId', '=', runId)
      .where('attempt', '=', attempt)
      .where('status', '<>', 'completed')
      .execute()
  }
}

/** Deletes the jobs and steps of an attempt, with the annotations of the steps. */
export async function deleteJobsAndSteps(tx: Db, { runId, attempt }: OfAttempt): Promise<void> {
  for (const table of ['runJobs', 'runSteps', 'runAnnotations'] as const) {
    await tx.deleteFrom(table).where('runId', '=', runId).where('attempt', '=', attempt).execute()
  }
}

/** Lists the jobs of an attempt, with all columns. */
export function listJobs(db: Db, { runId, attempt }: OfAttempt): Promise<RunJobRow[]> {
  return db
    .selectFrom('runJobs')
    .selectAll()
    .where('runId', '=', runId)
    .where('attempt', '=', attempt)
    .orderBy('job')
    .execute()
}

export type NamedJob = Omit<RunJobRow, 'outputs' | 'matrix'>

/** Lists the jobs of attempts without the columns that may be long; those of one run in order. */
export function listNamedJobs(db: Db, of: OfAttempt[]): Promise<NamedJob[]> {
  return inParts(of, (some) =>
    db
      .selectFrom('runJobs')
      .select(['runId', 'attempt', 'job', 'file', 'workflow', 'jobId', 'name', 'status'])
      .select(['conclusion', 'fault', 'tolerated', 'startedAt', 'completedAt'])
      .where((is) => isOneOf(is, some))
      .orderBy('runId')
      .orderBy('job')
      .execute(),
  )
}

export type NamedStep = Pick<RunStepRow, 'runId' | 'attempt' | 'job' | 'step' | 'name'>

export function listNamedSteps(db: Db, of: OfAttempt): Promise<NamedStep[]> {
  return db
    .selectFrom('runSteps')
    .select(['runId', 'attempt', 'job', 'step', 'name'])
    .where('runId', '=', of.runId)
    .where('attempt', '=', of.attempt)
    .orderBy('step')
    .execute()
}

export async function hasStep(
  db: Db,
  { runId, attempt, step }: OfAttempt & { step: number },
): Promise<boolean> {
  const found = await db
    .selectFrom('runSteps')
    .select('step')
    .where('runId', '=', runId)
    .where('attempt', '=', attempt)
    .where('step', '=', step)
    .executeTakeFirst()
  return found !== undefined
}

/** Counts the steps of attempts and the characters of their summaries, by run. Attempts without steps have no row. */
export function measureSteps(db: Db, of: OfAttempt[]) {
  return inParts(of, (some) =>
    db
      .selectFrom('runSteps')
      .select((is) => [
        'runId',
        is.fn.countAll<number | string>().as('steps'),
        sql<number | string>`sum(length(summary))`.as('summaries'),
      ])
      .where((is) => isOneOf(is, some))
      .groupBy('runId')
      .execute(),
  )
}

/** Lists the steps of attempts, those of one run in order, with the end of each tail and the start of each summary. */
export function listSteps(
  db: Db,
  of: OfAttempt[],
  { tailLength, summaryLength }: { tailLength: number; summaryLength: number },
): Promise<RunStepRow[]> {
  return inParts(of, (some) =>
    db
      .selectFrom('runSteps')
      .select(['runId', 'attempt', 'step', 'job', 'name', 'status', 'conclusion', 'exitCode'])
      .select(['fault', 'startedAt', 'completedAt'])
      .select([
        sql<string>`substr(summary, 1, ${summaryLength})`.as('summary'),
        // SQLite and PostgreSQL differ on a start before the first character.
        sql<string>`case when length(tail) > ${tailLength}
          then substr(tail, length(tail) - ${tailLength} + 1) else tail end`.as('tail'),
      ])
      .where((is) => isOneOf(is, some))
      .orderBy('runId')
      .orderBy('step')
      .execute(),
  )
}

function isOneOf(is: ExpressionBuilder<Schema, 'runJobs' | 'runSteps'>, of: OfAttempt[]) {
  return is.or(of.map(({ runId, attempt }) => is.and({ runId, attempt })))
}

// SQLite allows an expression depth of 1000.
const attemptsPerQuery = 200

async function inParts<T>(of: OfAttempt[], list: (some: OfAttempt[]) => Promise<T[]>) {
  const all: T[] = []
  for (let start = 0; start < of.length; start += attemptsPerQuery)
    all.push(...(await list(of.slice(start, start + attemptsPerQuery))))
  return all
}
