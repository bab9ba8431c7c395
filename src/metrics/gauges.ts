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

type CacheUsage = { entries: number; bytes: number }

/** Requests for refs by their source, and the memory for refs. */
type RefCounts = { hit: number; read: number; git: number; bytes: number }

type GaugeSources = {
  db: Database
  clock: Clock
  git: Pick<Git, 'count'>
  freeSpace: Pick<FreeSpace, 'measure'>
  limiters: Record<'fetch' | 'push', Pick<FairLimiter, 'counts'>>
  /** The number of repositories that are due for maintenance. */
  countDue: () => Promise<number>
  responseCache: { count: () => CacheUsage }
  refCache: { count: () => RefCounts }
  /** The git processes and caches of the SSH process; undefined when there is none. */
  countSsh: (() => Promise<{ gitProcesses: number; kept: CacheUsage; refs: RefCounts }>) | undefined
  workflows: { count: () => Promise<{ status: string; count: number | string }[]> }
}

/** Adds the metrics that are read at each scrape. */
export function addGauges(
  metrics: Pick<LaterMetrics, 'gauge' | 'counter'>,
  sources: GaugeSources,
): void {
  const { db, clock, git, freeSpace, limiters, responseCache, refCache, countSsh, workflows } =
    sources
  const { fetch, push } = limiters
  const limiterCounts = (field: 'running' | 'waiting') => async () => ({
    fetch: fetch.counts()[field],
    push: push.counts()[field],
  })
  const cacheCounts = (field: keyof CacheUsage) => async () => ({
    main: responseCache.count()[field],
    ...(countSsh && { ssh: (await countSsh()).kept[field] }),
  })
  const gauges: Parameters<LaterMetrics['gauge']>[0][] = [
    {
      name: 'svc_git_processes',
      help: 'Running git processes, by the process that started them.',
      label: 'process',
      read: async () => ({
        main: git.count(),
        ...(countSsh && { ssh: (await countSsh()).gitProcesses }),
      }),
    },
    {
      name: 'svc_fetch_cache_entries',
      help: 'Cached fetch responses, by the process that has them.',
      label: 'process',
      read: cacheCounts('entries'),
    },
    {
      name: 'svc_fetch_cache_bytes',
      help: 'Bytes of cached fetch responses, by the process that has them.',
      label: 'process',
      read: cacheCounts('bytes'),
    },
    {
      name: 'svc_refs_snapshots_bytes',
      help: 'Approximate memory of cached refs, by the process that has them.',
      label: 'process',
      read: async () => ({
        main: refCache.count().bytes,
        ...(countSsh && { ssh: (await countSsh()).refs.bytes }),
      }),
    },
    {
      name: 'svc_git_limiter_running',
      help: 'Running fetches (including clones and archives) and pushes.',
      label: 'kind',
      read: limiterCounts('running'),
    },
    {
      name: 'svc_git_limiter_waiting',
      help: 'Fetches and pushes that wait for the limiter.',
      label: 'kind',
      read: limiterCounts('waiting'),
    },
    {
      name: 'svc_pushes_unfinished',
      help: 'Authorized pushes whose events are not published yet.',
      read: () => countUnfinishedPushes(db),
    },
    {
      name: 'svc_repositories',
      help: 'Number of repositories.',
      read: () => countRepositories(db),
    },
    {
      name: 'svc_maintenance_due',
      help: 'Repositories that are due for maintenance.',
      read: sources.countDue,
    },
    {
      name: 'svc_workflow_runs',
      help: 'Queued and running workflow runs.',
      label: 'status',
      read: async () => {
        const counts = (await workflows.count()).map(({ status, count }) => [status, Number(count)])
        return { queued: 0, running: 0, ...Object.fromEntries(counts) }
      },
    },
    {
      name: 'svc_webhook_deliveries_pending',
      help: 'Pending webhook deliveries.',
      read: () => countPendingDeliveries(db),
    },
    {
      name: 'svc_webhook_deliveries_oldest_due_timestamp_seconds',
      help: 'Due time of the webhook delivery that is overdue the longest; 0 when none is due.',
      read: async () => ((await findOldestDue(db, clock.now())) ?? 0) / 1000,
    },
    {
      name: 'svc_disk_free_bytes',
      help: 'Free bytes on the disk of the data directory.',
      read: async () => (await freeSpace.measure()).freeBytes,
    },
    {
      name: 'svc_disk_reserved_bytes',
      help: 'Free bytes below which writes are rejected.',
      read: async () => Math.ceil((await freeSpace.measure()).leastBytes),
    },
  ]
  for (const gauge of gauges) metrics.gauge(gauge)
  metrics.counter({
    name: 'svc_refs_snapshots_total',
    help: 'Requests for refs by source: memory (hit), files (read), or git (git).',
    label: 'result',
    read: async () => {
      const [main, ssh] = [refCache.count(), (await countSsh?.())?.refs]
      const sum = (of: 'hit' | 'read' | 'git') => main[of] + (ssh?.[of] ?? 0)
      return { hit: sum('hit'), read: sum('read'), git: sum('git') }
    },
  })
}
