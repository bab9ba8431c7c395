import { createMasker } from '#actions/secret-masking/masker.ts'
import type { Clock } from '#base/clock.ts'
import type { Notifier } from '#base/concurrency/notifier.ts'
import { Problem, type ProblemCode, toProblem } from '#base/problem.ts'
import type { Db } from '#database/schema.ts'
import {
  lockRepositorySummary,
  type RepositorySummary,
} from '#repositories/repository-summary-store.ts'
import type { Sources } from '../commits/workflow-sources.ts'
import type { PublishRuns, RunTransition } from '../run-events.ts'
import { insertRun, lockRuns, takeNumber } from '../run-store.ts'
import { addLog } from '../views/run-logs.ts'
import { createFailedRunRow, type RunSpec } from './create-run.ts'
import { type EndedVersions, endVersionRuns, enqueueRun } from './enqueue-run.ts'

/** A run to create: one to queue, or one that failed before it started. */
export type PlannedRun = { start: RunSpec } | { failed: FailedRun }

type FailedRun = Omit<RunSpec, 'sources' | 'mask'> & { files: string[]; fault: string }

/** The id of the run, the names to notify in this process, and the events to publish at the end of the transaction. */
type CreatedRuns = { id: string | undefined; changed: string[]; transitions: RunTransition[] }

const transientCodes = new Set<ProblemCode>([
  'checks_busy',
  'git_busy',
  'database_unavailable',
  'storage_full',
])

/** Whether an error is expected to pass, so that the trigger is retried without limit. */
export function isTransient(error: unknown): boolean {
  return transientCodes.has(toProblem(error).code)
}

/** The fields that all runs of a trigger have in common. */
export function toStartFields(
  { id, name, ownerUsername: owner }: RepositorySummary,
  ref: string,
  commit: string,
  actor: RunSpec['actor'],
) {
  return { repository: { id, name, owner }, actor, ref, commit, inputs: {} }
}

/** Creates a planned run in a transaction; none when the repository was deleted. */
async function createPlanned(tx: Db, clock: Clock, planned: PlannedRun): Promise<CreatedRuns> {
  const fields = 'start' in planned ? planned.start : planned.failed
  if (!(await lockRepositorySummary(tx, fields.repository.id)))
    return { id: undefined, changed: [], transitions: [] }
  if ('failed' in planned) return createFailedRun(tx, clock, planned.failed)
  try {
    const { id, changed, transitions } = await enqueueRun(tx, planned.start, clock.now())
    return { id, changed: [...changed, 'queue'], transitions }
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    const { sources, mask: _, ...start } = planned.start
    return createFailedRun(tx, clock, {
      ...start,
      files: sources.files.map(({ path }) => path),
      fault: error.message,
    })
  }
}

async function createFailedRun(tx: Db, clock: Clock, failed: FailedRun): Promise<CreatedRuns> {
  const number = await takeNumber(tx, failed.repository.id)
  const run = await createFailedRunRow(failed, clock.now(), number)
  await insertRun(tx, run, [])
  const text = `✗ failure: ${run.fault}\n`
  await addLog(tx, { ...run, attempt: 1, logBytes: 0 }, [{ step: null, prefix: '', text }])
  const transitions: RunTransition[] = [{ action: 'completed', run: { ...run, attempt: 1 } }]
  return { id: run.id, changed: [], transitions }
}

/** Creates planned runs as the last part of a transaction, and publishes their events. */
export type QueueRuns = (
  tx: Db,
  planned: readonly PlannedRun[],
  /** Versions whose runs are ended before. */
  ended?: EndedVersions,
) => Promise<{
  /** The ids of the runs, also of those that failed before they started. */
  ids: string[]
  /** To be called after the transaction. */
  notify: () => void
}>

type QueueRunsDependencies = {
  publishRuns: PublishRuns
  changes: Pick<Notifier, 'notify'>
  clock: Clock
}

export function createQueueRuns({ publishRuns, changes, clock }: QueueRunsDependencies): QueueRuns {
  return async (tx, planned, ended) => {
    const created: CreatedRuns[] = []
    // Locked first, as whenever runs are queued.
    if (ended && (await lockRepositorySummary(tx, ended.repositoryId))) {
      await lockRuns(tx, ended.repositoryId)
      created.push({ id: undefined, ...(await endVersionRuns(tx, ended, clock.now())) })
    }
    for (const one of planned) created.push(await createPlanned(tx, clock, one))
    const transitions = created.flatMap((one) => one.transitions)
    await publishRuns(tx, clock.now(), transitions)
    return {
      ids: created.flatMap(({ id }) => id ?? []),
      notify() {
        for (const name of created.flatMap(({ changed }) => changed)) changes.notify(name)
      },
    }
  }
}

type OpenSecrets = (repositoryId: string) => Promise<Record<string, string>>

/**
 * Creates a function that masks the repository's secrets in the name, labels and concurrency groups of a run: an
 * expression in them may yield a secret value, for example from an input.
 */
export async function createNameMask(
  openSecrets: OpenSecrets,
  repositoryId: string,
  { workflows, calledWorkflows }: Pick<Sources, 'workflows' | 'calledWorkflows'>,
): Promise<(text: string) => string> {
  const texts = [...workflows, ...calledWorkflows].map((one) => [
    one.runName,
    one.concurrency,
    one.jobs.map((job) => job.runsOn),
  ])
  if (!JSON.stringify(texts).includes('${{')) return (text) => text
  // If the secrets cannot be opened, the run fails when it starts.
  const secrets = await openSecrets(repositoryId).catch(() => ({}))
  return createMasker(Object.values(secrets)).mask
}
