import type { Db, RunRow } from '../database/schema.ts'
import { publish } from '../events/events.ts'
import { findPlace } from './place-store.ts'

type Told = Pick<
  RunRow,
  | 'id'
  | 'repositoryId'
  | 'attempt'
  | 'number'
  | 'name'
  | 'branch'
  | 'commitId'
  | 'event'
  | 'conclusion'
  | 'actorId'
  | 'actorUsername'
>

/** Publishes that a run has come to a new state, in the transaction that brings it there. */
export async function publishRun(
  tx: Db,
  now: number,
  action: 'queued' | 'running' | 'completed',
  run: Told,
): Promise<void> {
  const { id: runId, repositoryId, attempt, number, name, branch, commitId, event } = run
  const repositoryName = (await findPlace(tx, repositoryId))?.name ?? ''
  const place = { repositoryName, branch, commit: commitId }
  const data = { action, runId, attempt, number, name, ...place, event, conclusion: run.conclusion }
  const actor = { id: run.actorId, username: run.actorUsername }
  await publish(tx, now, [{ kind: 'workflow', actor, repositoryId, data }])
}
