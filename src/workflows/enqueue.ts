import { Problem } from '../base/problem.ts'
import type { Db } from '../database/schema.ts'
import { ExpressionError } from '../workflow-parser/expression-fault.ts'
import { draftRun, type Start } from './new-run.ts'
import { publishRun, type RunNews } from './run-events.ts'
import {
  countQueued,
  insertRun,
  type ListedRun,
  listInGroups,
  takeNumber,
  updateRun,
} from './run-store.ts'

const queuedAtMost = 500

/**
 * Queues a run, in a transaction. Of each concurrency group no more than one run waits: the one that waited
 * gives way; where the workflow says so, the one that runs does, too. Returns the run, the ids of those that were
 * changed, and what is to be published at the end of the transaction. Throws `too_many_runs` or `workflow_invalid`.
 */
export async function enqueue(tx: Db, start: Start, now: number) {
  const repositoryId = start.repository.id
  // Locks the repository's counter, so that runs of one group come one after the other.
  const number = await takeNumber(tx, repositoryId)
  await requireRoom(tx, repositoryId)
  const { run, groups, cancels } = await toDraft(start, now, number)
  const { changed, news } = await makeWay(
    tx,
    { repositoryId, groups, cancels, name: run.name },
    now,
  )
  await insertRun(tx, run, groups)
  const queued: RunNews = { action: 'queued', run: { ...run, attempt: 1 } }
  return { id: run.id, number, changed, news: [...news, queued] }
}

/** Refuses a further run of a repository that has too many waiting. Throws `too_many_runs`. */
export async function requireRoom(tx: Db, repositoryId: string): Promise<void> {
  if ((await countQueued(tx, repositoryId)) < queuedAtMost) return
  throw new Problem(
    'too_many_runs',
    `${queuedAtMost} runs wait already; cancel some, or wait until they have run.`,
  )
}

type Way = { repositoryId: string; groups: string[]; cancels: string[]; name: string }

/** Has those runs give way that stand in the way of a new one of their groups; their ids, and what is to be published. */
export async function makeWay(tx: Db, way: Way, now: number) {
  const { repositoryId, groups, cancels } = way
  const reason = `A newer run of the same concurrency group took its place: ${way.name}.`
  const waiting = await listInGroups(tx, { repositoryId, groups, status: 'queued' })
  const news: RunNews[] = []
  for (const id of waiting) {
    const run = await endQueued(tx, id, reason, now)
    if (run) news.push({ action: 'completed', run })
  }
  const running = await listInGroups(tx, { repositoryId, groups: cancels, status: 'running' })
  for (const id of running) {
    await updateRun(tx, { id, status: 'running' }, { cancelReason: reason, cancelledAt: now })
  }
  return { changed: [...waiting, ...running], news }
}

/** Ends a run that nobody has begun; undefined when it is not queued. */
export async function completeQueued(
  tx: Db,
  id: string,
  reason: string,
  now: number,
): Promise<ListedRun | undefined> {
  const ended = await endQueued(tx, id, reason, now)
  if (ended) await publishRun(tx, now, 'completed', ended)
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

async function toDraft(start: Start, now: number, number: number) {
  try {
    return await draftRun(start, now, number)
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error
    const { file, line, column } = error.place
    const errors = [{ pointer: `${file}:${line}:${column}`, detail: error.message }]
    throw new Problem('workflow_invalid', `${file}:${line}:${column}: ${error.message}`, { errors })
  }
}
