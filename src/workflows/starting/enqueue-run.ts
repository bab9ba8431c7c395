import { ExpressionError } from '#actions/workflow-parser/expressions/scope.ts'
import { Problem } from '#base/problem.ts'
import type { Db } from '#database/schema.ts'
import { versionName } from '#git/refs/ref-name.ts'
import type { PublishRuns, RunTransition } from '../run-events.ts'
import {
  countQueued,
  insertRun,
  type ListedRun,
  listInGroups,
  listUnfinishedBelow,
  takeNumber,
  updateRun,
} from '../run-store.ts'
import { createRun, type RunSpec } from './create-run.ts'

/** Maximum number of queued runs of a repository. */
export const maxQueuedRuns = 500

/**
 * Queues a run, in a transaction. At most one run of each concurrency group is queued: a new run cancels the queued
 * one and, with `cancel-in-progress`, the running one. Returns the run, the ids of the changed runs, and the events
 * to publish at the end of the transaction. Throws `too_many_runs` or `workflow_invalid`.
 */
export async function enqueueRun(tx: Db, spec: RunSpec, now: number) {
  const repositoryId = spec.repository.id
  // Locks the counter of the repository, which serializes runs of one concurrency group.
  const number = await takeNumber(tx, repositoryId)
  if (spec.restriction) await requireRestrictedSpace(tx, repositoryId)
  if (!spec.restriction?.needsApproval) await requireQueueSpace(tx, repositoryId)
  const { run, groups, cancels } = await createOrReject(spec, now, number)
  const { changed, transitions } = await supersede(
    tx,
    { repositoryId, groups, cancels, name: run.name },
    now,
  )
  await insertRun(tx, run, groups)
  const queued: RunTransition = { action: 'queued', run: { ...run, attempt: 1 } }
  return { id: run.id, number, changed, transitions: [...transitions, queued] }
}

/** Throws `too_many_runs` when a repository has too many queued runs. */
export async function requireQueueSpace(tx: Db, repositoryId: string): Promise<void> {
  if ((await countQueued(tx, repositoryId)) < maxQueuedRuns) return
  throw new Problem(
    'too_many_runs',
    `The repository already has ${maxQueuedRuns} queued runs; cancel some, or wait until they have run.`,
  )
}

/** Maximum number of queued runs of a repository that are restricted, also of those that wait for an approval. */
const maxRestrictedRuns = 100

async function requireRestrictedSpace(tx: Db, repositoryId: string): Promise<void> {
  if ((await countQueued(tx, repositoryId, { onlyRestricted: true })) < maxRestrictedRuns) return
  throw new Problem(
    'too_many_runs',
    `The repository already has ${maxRestrictedRuns} queued runs for users who may not push; they are approved, cancelled or run first.`,
  )
}

/** Versions of a change whose runs are not needed any more: those before a version, or all of them. */
export type EndedVersions = {
  repositoryId: string
  number: number
  before?: number
  /** Ends only those that wait for an approval. */
  onlyUnapproved?: boolean
}

/** Cancels the queued runs of versions, and the running ones that are restricted. Returns as `supersede` does. */
export async function endVersionRuns(tx: Db, ended: EndedVersions, now: number) {
  const { repositoryId, number, before = Number.POSITIVE_INFINITY, onlyUnapproved } = ended
  const prefix = versionName({ number, version: 0 }).slice(0, -1)
  const runs = (await listUnfinishedBelow(tx, repositoryId, prefix)).filter(
    ({ ref, needsApproval }) =>
      Number(ref.slice(prefix.length)) < before && (!onlyUnapproved || needsApproval === 1),
  )
  const reason =
    before === Number.POSITIVE_INFINITY
      ? `Change ${number} was closed.`
      : `Change ${number} has version ${before}.`
  const transitions: RunTransition[] = []
  for (const { id, isRestricted } of runs) {
    const run = await endQueued(tx, id, reason, now)
    if (run) transitions.push({ action: 'completed', run })
    else if (isRestricted === 1)
      await updateRun(tx, { id, status: 'running' }, { cancelReason: reason, cancelledAt: now })
  }
  return { changed: runs.map(({ id }) => id), transitions }
}

type NewerRun = { repositoryId: string; groups: string[]; cancels: string[]; name: string }

/** Cancels the runs that a newer one of their concurrency groups replaces. Returns their ids and the events to publish. */
export async function supersede(tx: Db, newer: NewerRun, now: number) {
  const { repositoryId, groups, cancels } = newer
  const reason = `Superseded by a newer run of the same concurrency group: ${newer.name}.`
  const waiting = await listInGroups(tx, { repositoryId, groups, status: 'queued' })
  const transitions: RunTransition[] = []
  for (const id of waiting) {
    const run = await endQueued(tx, id, reason, now)
    if (run) transitions.push({ action: 'completed', run })
  }
  const running = await listInGroups(tx, { repositoryId, groups: cancels, status: 'running' })
  for (const id of running) {
    await updateRun(tx, { id, status: 'running' }, { cancelReason: reason, cancelledAt: now })
  }
  return { changed: [...waiting, ...running], transitions }
}

/** Cancels a queued run; undefined when it is not queued. */
export async function completeQueued(
  tx: Db,
  publishRuns: PublishRuns,
  { id, reason, now }: { id: string; reason: string; now: number },
): Promise<ListedRun | undefined> {
  const ended = await endQueued(tx, id, reason, now)
  if (ended) await publishRuns(tx, now, [{ action: 'completed', run: ended }])
  return ended
}

function endQueued(
  tx: Db,
  id: string,
  reason: string,
  now: number,
): Promise<ListedRun | undefined> {
  const end = { conclusion: 'cancelled', cancelReason: reason, fault: reason } as const
  const times = { startedAt: now, completedAt: now, cancelledAt: now }
  return updateRun(tx, { id, status: 'queued' }, { status: 'completed', ...end, ...times })
}

async function createOrReject(spec: RunSpec, now: number, number: number) {
  try {
    return await createRun(spec, now, number)
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error
    const { file, line, column } = error.position
    const errors = [{ pointer: `${file}:${line}:${column}`, detail: error.message }]
    throw new Problem('workflow_invalid', `${file}:${line}:${column}: ${error.message}`, { errors })
  }
}
