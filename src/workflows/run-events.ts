import type { Db } from '#database/schema.ts'
import type { Event, Publish } from '#events/events.ts'
import { findRepositorySummary } from '#repositories/repository-summary-store.ts'
import type { NewRun } from './run-store.ts'

/** A new run or a row. */
type ReportedRun = Omit<NewRun, 'sources' | 'payload' | 'causeId'> & { attempt: number }

type Action = 'queued' | 'running' | 'completed'

/** A state change of a run, to be published with the run as it is then. */
export type RunTransition = { action: Action; run: ReportedRun }

/**
 * Publishes state changes of runs, in the transaction that makes them. Must come last in it: publishing takes a lock
 * that every publisher needs, so rows must be locked before it, never after.
 */
export type PublishRuns = (tx: Db, now: number, transitions: RunTransition[]) => Promise<void>

export function createPublishRuns(publish: Publish): PublishRuns {
  return async (tx, now, transitions) => {
    const events: Event[] = []
    for (const one of transitions) events.push(await toEvent(tx, one))
    await publish(tx, now, events)
  }
}

async function toEvent(tx: Db, { action, run }: RunTransition): Promise<Event> {
  const { id: runId, repositoryId, attempt, number, name, branch, ref, event } = run
  const { isolation = '', fault = '', createdAt, queuedAt } = run
  const repositoryName = (await findRepositorySummary(tx, repositoryId))?.name ?? ''
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
  return { kind: 'workflow', actor, repositoryId, data }
}
