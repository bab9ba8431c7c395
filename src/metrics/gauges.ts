import type { Clock } from '../base/clock.ts'
import type { FairLimiter } from '../concurrency/fair-limiter.ts'
import type { FreeSpace } from '../config/free-space.ts'
import type { Database } from '../database/database.ts'
import type { Git } from '../git/process/git-process.ts'
import type { LaterMetrics } from './later.ts'
import {
  countPendingDeliveries,
  countRepositories,
  countUnfinishedPushes,
  findOldestDue,
} from './metrics-store.ts'

/** Answers of fetches that may be given again. */
type CacheUsage = { entries: number; bytes: number }

/** Requests by where the refs came from that they ask for, and memory for refs. */
type RefCounts = { hit: number; read: number; git: number; bytes: number }

type Measured = {
  db: Database
  clock: Clock
  git: Pick<Git, 'count'>
  freeSpace: Pick<FreeSpace, 'measure'>
  limiters: Record<'fetch' | 'push', Pick<FairLimiter, 'counts'>>
  /** Repositories that wait for maintenance. */
  countDue: () => Promise<number>
  responseCache: { count: () => CacheUsage }
  refCache: { count: () => RefCounts }
  /** The git processes of the SSH process and what it keeps; undefined when there is none. */
  countSsh: (() => Promise<{ gitProcesses: number; kept: CacheUsage; refs: RefCounts }>) | undefined
  workflows: { count: () => Promise<{ status: string; count: number | string }[]> }
}

/** Adds what is read when it is asked for. */
export function addGauges(
  metrics: Pick<LaterMetrics, 'gauge' | 'counter'>,
  measured: Measured,
): void {
  const { db, clock, git, freeSpace, limiters, responseCache, refCache, countSsh, workflows } =
    measured
  const { fetch, push } = limiters
  const ofTurns = (which: 'running' | 'waiting') => async () => ({
    fetch: fetch.counts()[which],
    push: push.counts()[which],
  })
  const ofKept = (which: keyof CacheUsage) => async () => ({
    main: responseCache.count()[which],
    ...(countSsh && { ssh: (await countSsh()).kept[which] }),
  })
  const gauges: Parameters<LaterMetrics['gauge']>[0][] = [
    {
      name: 'svc_git_processes',
      help: 'Git processes that run, by the process that started them.',
      label: 'process',
      read: async () => ({
        main: git.count(),
        ...(countSsh && { ssh: (await countSsh()).gitProcesses }),
      }),
    },
    {
      name: 'svc_fetch_cache_entries',
      help: 'Answers of fetches that are kept to be given again, by the process that has them.',
      label: 'process',
      read: ofKept('entries'),
    },
    {
      name: 'svc_fetch_cache_bytes',
      help: 'Bytes of these answers.',
      label: 'process',
      read: ofKept('bytes'),
    },
    {
      name: 'svc_refs_snapshots_bytes',
      help: 'Memory for refs, about, by the process that has them.',
      label: 'process',
      read: async () => ({
        main: refCache.count().bytes,
        ...(countSsh && { ssh: (await countSsh()).refs.bytes }),
      }),
    },
    {
      name: 'svc_git_limiter_running',
      help: 'Fetches (with clones and archives) and pushes that have their turn.',
      label: 'kind',
      read: ofTurns('running'),
    },
    {
      name: 'svc_git_limiter_waiting',
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
  metrics.counter({
    name: 'svc_refs_snapshots_total',
    help: 'Requests for refs by where they came from: memory (hit), their files (read), or git (git).',
    label: 'result',
    read: async () => {
      const [main, ssh] = [refCache.count(), (await countSsh?.())?.refs]
      const sum = (of: 'hit' | 'read' | 'git') => main[of] + (ssh?.[of] ?? 0)
      return { hit: sum('hit'), read: sum('read'), git: sum('git') }
    },
  })
}
