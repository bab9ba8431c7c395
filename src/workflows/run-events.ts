import type { Db } from '../database/schema.ts'
import { publish } from '../events/events.ts'
import { findPlace } from '../repositories/place-store.ts'
import type { NewRun } from './run-store.ts'

// One that was just made, or a row.
type Told = Pick<
  NewRun,
  | 'id'
  | 'repositoryId'
  | 'number'
  | 'name'
  | 'branch'
  | 'ref'
  | 'commitId'
  | 'event'
  | 'files'
  | 'labels'
  | 'isolation'
  | 'conclusion'
  | 'fault'
  | 'createdAt'
  | 'queuedAt'
  | 'startedAt'
  | 'completedAt'
  | 'actorId'
  | 'actorUsername'
> & { attempt: number }

/** Publishes that a run has come to a new state, with all that it is then, in the transaction that brings it there. */
export async function publishRun(
  tx: Db,
  now: number,
  action: 'queued' | 'running' | 'completed',
  run: Told,
): Promise<void> {
  const { id: runId, repositoryId, attempt, number, name, branch, ref, event } = run
  const { isolation = '', fault = '', createdAt, queuedAt } = run
  const repositoryName = (await findPlace(tx, repositoryId))?.name ?? ''
  const data = {
    action,
    runId,
    attempt,
    number,
    name,
    repositoryName,
    branch,
    ref,
    commit: run.commitId,
    event,
    files: JSON.parse(run.files),
    labels: JSON.parse(run.labels),
    isolation,
    conclusion: run.conclusion ?? null,
    fault,
    createdAt,
    queuedAt,
    startedAt: run.startedAt ?? null,
    completedAt: run.completedAt ?? null,
  }
  const actor = { id: run.actorId, username: run.actorUsername }
  await publish(tx, now, [{ kind: 'workflow', actor, repositoryId, data }])
}
