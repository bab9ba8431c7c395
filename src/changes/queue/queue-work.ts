import { createPoller } from '#base/concurrency/poller.ts'
import { createTaskGroup } from '#base/concurrency/task-group.ts'
import type { BranchQueueRow } from '#database/schema.ts'
import type { EventNotifier } from '#events/event-notifier.ts'
import { findRepositorySummary } from '#repositories/repository-summary-store.ts'
import { createAdvance } from './advance.ts'
import { type QueueParts, QueueTakenError } from './branch-queue.ts'
import { listBranchQueues } from './queued-store.ts'

export type QueueWorkParts = QueueParts & {
  notifier: Pick<EventNotifier, 'onEvents'>
}

const pollIntervalMs = 2000

/** Starts the work on the queues of all branches: any node may do the next step of any. */
export function startQueueWork(parts: QueueWorkParts): AsyncDisposable {
  const { db, nodes, clock, log, notifier } = parts
  const advance = createAdvance(parts)
  const working = createTaskGroup()
  /** The queues that this node works on, and whether something has happened since their rows were read. */
  const busy = new Map<string, { isOutdated: boolean }>()

  async function isFree({ worker, workUntil }: BranchQueueRow): Promise<boolean> {
    if (worker === '' || workUntil < clock.now()) return true
    return worker !== nodes.own && !(await nodes.isRunning(worker))
  }

  async function work(row: BranchQueueRow, signal: AbortSignal): Promise<void> {
    const key = `${row.repositoryId} ${row.target}`
    const present = busy.get(key)
    if (present) present.isOutdated = true
    if (present) return
    const state = { isOutdated: false }
    busy.set(key, state)
    try {
      if (row.worker !== nodes.own && !(await isFree(row))) return
      // A deleted one may be restored.
      if (await findRepositorySummary(db, row.repositoryId)) await advance(row, signal)
    } catch (error) {
      const about = { repositoryId: row.repositoryId, target: row.target }
      if (!(error instanceof QueueTakenError) && !signal.aborted)
        log.error({ err: error, ...about }, 'queue of changes not advanced')
    } finally {
      busy.delete(key)
      if (state.isOutdated) poller.wake()
    }
  }

  const poller = createPoller({
    intervalMs: pollIntervalMs,
    async run(signal) {
      // One that takes long, by its merges for instance, does not delay the others.
      for (const row of await listBranchQueues(db)) void working.add(work(row, signal))
    },
    onError: (error) => log.error({ err: error }, 'queues of changes not read'),
  })
  const subscription = notifier.onEvents(poller.wake)
  poller.wake()
  return {
    async [Symbol.asyncDispose]() {
      subscription[Symbol.dispose]()
      await poller[Symbol.asyncDispose]()
      await working.settled()
    },
  }
}
