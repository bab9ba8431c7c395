import type { Clock } from '../base/clock.ts'
import type { FreeSpace } from '../config/free-space.ts'
import type { Database } from '../database/database.ts'
import type { Git } from '../git/git-process.ts'
import type { Turns } from '../git/turns.ts'
import type { LaterMetrics } from './later.ts'
import {
  countPendingDeliveries,
  countRepositories,
  countUnfinishedPushes,
  findOldestDue,
} from './metrics-store.ts'

type Measured = {
  db: Database
  clock: Clock
  git: Pick<Git, 'count'>
  freeSpace: Pick<FreeSpace, 'measure'>
  turns: Record<'fetch' | 'push', Pick<Turns, 'counts'>>
  /** Repositories that wait for maintenance. */
  countDue: () => Promise<number>
  /** The git processes of the SSH process; undefined when there is none. */
  countSshGits: (() => Promise<number>) | undefined
  workflows: { count: () => Promise<{ status: string; count: number | string }[]> }
}

/** Adds what is read when it is asked for. */
export function addGauges(metrics: Pick<LaterMetrics, 'gauge'>, measured: Measured): void {
  const { db, clock, git, freeSpace, turns, countSshGits, workflows } = measured
  const { fetch, push } = turns
  const ofTurns = (which: 'running' | 'waiting') => async () => ({
    fetch: fetch.counts()[which],
    push: push.counts()[which],
  })
  const gauges: Parameters<LaterMetrics['gauge']>[0][] = [
    {
      name: 'svc_git_processes',
      help: 'Git processes that run, by the process that started them.',
      label: 'process',
      read: async () => ({ main: git.count(), ...(countSshGits && { ssh: await countSshGits() }) }),
    },
    {
      name: 'svc_git_turns_running',
      help: 'Fetches (with clones and archives) and pushes that have their turn.',
      label: 'kind',
      read: ofTurns('running'),
    },
    {
      name: 'svc_git_turns_waiting',
      help: 'Fetches and pushes that wait for their turn.',
      label: 'kind',
      read: ofTurns('waiting'),
    },
    {
      name: 'svc_pushes_unfinished',
      help: 'Pushes that were allowed and whose events are not published yet.',
      read: () => countUnfinishedPushes(db),
    },
    {
      name: 'svc_repositories',
      help: 'Repositories.',
      read: () => countRepositories(db),
    },
    {
      name: 'svc_maintenance_due',
      help: 'Repositories that wait for maintenance.',
      read: measured.countDue,
    },
    {
      name: 'svc_workflow_runs',
      help: 'Workflow runs that wait (queued) or run (running).',
      label: 'status',
      read: async () => {
        const counts = (await workflows.count()).map(({ status, count }) => [status, Number(count)])
        return { queued: 0, running: 0, ...Object.fromEntries(counts) }
      },
    },
    {
      name: 'svc_webhook_deliveries_pending',
      help: 'Webhook deliveries that wait for their next attempt.',
      read: () => countPendingDeliveries(db),
    },
    {
      name: 'svc_webhook_deliveries_oldest_due_timestamp_seconds',
      help: 'Since when the delivery waits that is due the longest; 0 when none is due.',
      read: async () => ((await findOldestDue(db, clock.now())) ?? 0) / 1000,
    },
    {
      name: 'svc_disk_free_bytes',
      help: 'Bytes that are free on the disk of the data folder.',
      read: async () => (await freeSpace.measure()).freeBytes,
    },
    {
      name: 'svc_disk_reserved_bytes',
      help: 'Bytes below which nothing more is written.',
      read: async () => Math.ceil((await freeSpace.measure()).leastBytes),
    },
  ]
  for (const gauge of gauges) metrics.gauge(gauge)
}
