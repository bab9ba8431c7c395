import type { Clock } from '#base/clock.ts'
import type { FreeSpace } from '#config/free-space.ts'
import type { Database } from '#database/database.ts'
import { countRepositories } from '#repositories/repository-store.ts'
import type { Metrics } from './metrics.ts'
import { countPendingDeliveries, countUnfinishedPushes, findOldestDue } from './metrics-store.ts'

type CacheUsage = { entries: number; bytes: number }

/** The git processes and the caches of one process; `refs` counts requests by their source, and the memory for refs. */
type GitCounts = {
  processes: number
  responses: CacheUsage
  refs: { hit: number; read: number; git: number; bytes: number }
}

type LimiterCounts = { running: number; waiting: number }

type UsageField = 'pushes' | 'fetches' | 'receivedBytes' | 'sentBytes' | 'runMs'

type GaugeSources = {
  db: Database
  clock: Clock
  freeSpace: Pick<FreeSpace, 'measure'>
  gitServer: { count: () => GitCounts & { limiters: Record<'fetch' | 'push', LimiterCounts> } }
  /** The SSH process; undefined when there is none. */
  ssh: { count: () => Promise<GitCounts> } | undefined
  /** The number of repositories that are due for maintenance. */
  maintenance: { countDue: () => Promise<number> }
  /** Counts since the start, by the names of namespaces. */
  namespaceUsage: { total: (field: UsageField) => Record<string, number> }
  workflows: { countUnfinished: () => Promise<{ status: string; count: number | string }[]> }
}

const usageCounters: [name: string, help: string, field: UsageField, unit: number][] = [
  ['svc_namespace_pushes_total', 'Pushes by namespace.', 'pushes', 1],
  ['svc_namespace_fetches_total', 'Fetches by namespace.', 'fetches', 1],
  [
    'svc_namespace_received_bytes_total',
    'Bytes of Git and Git LFS that were received, by namespace.',
    'receivedBytes',
    1,
  ],
  [
    'svc_namespace_sent_bytes_total',
    'Bytes of Git and Git LFS that were sent, by namespace.',
    'sentBytes',
    1,
  ],
  ['svc_namespace_run_seconds_total', 'Time of workflow runs, by namespace.', 'runMs', 1000],
]

/** Adds the metrics that are read at each scrape. */
export function addGauges(
  metrics: Pick<Metrics, 'gauge' | 'counter'>,
  { db, clock, freeSpace, gitServer, ssh, maintenance, workflows, namespaceUsage }: GaugeSources,
): void {
  const limiterCounts = (field: keyof LimiterCounts) => async () => {
    const { fetch, push } = gitServer.count().limiters
    return { fetch: fetch[field], push: push[field] }
  }
  const byProcess = (read: (counts: GitCounts) => number) => async () => ({
    main: read(gitServer.count()),
    ...(ssh && { ssh: read(await ssh.count()) }),
  })
  const gauges: Parameters<Metrics['gauge']>[0][] = [
    {
      name: 'svc_git_processes',
      help: 'Running git processes, by the process that started them.',
      label: 'process',
      read: byProcess(({ processes }) => processes),
    },
    {
      name: 'svc_fetch_cache_entries',
      help: 'Cached fetch responses, by the process that has them.',
      label: 'process',
      read: byProcess(({ responses }) => responses.entries),
    },
    {
      name: 'svc_fetch_cache_bytes',
      help: 'Bytes of cached fetch responses, by the process that has them.',
      label: 'process',
      read: byProcess(({ responses }) => responses.bytes),
    },
    {
      name: 'svc_refs_snapshots_bytes',
      help: 'Approximate memory of cached refs, by the process that has them.',
      label: 'process',
      read: byProcess(({ refs }) => refs.bytes),
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
      read: maintenance.countDue,
    },
    {
      name: 'svc_workflow_runs',
      help: 'Queued and running workflow runs.',
      label: 'status',
      read: async () => {
        const counts = (await workflows.countUnfinished()).map(({ status, count }) => [
          status,
          Number(count),
        ])
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
      read: async () => Math.ceil((await freeSpace.measure()).minFreeBytes),
    },
  ]
  for (const gauge of gauges) metrics.gauge(gauge)
  metrics.counter({
    name: 'svc_refs_snapshots_total',
    help: 'Requests for refs by source: memory (hit), files (read), or git (git).',
    label: 'result',
    read: async () => {
      const [main, inSsh] = [gitServer.count().refs, (await ssh?.count())?.refs]
      const sum = (source: 'hit' | 'read' | 'git') => main[source] + (inSsh?.[source] ?? 0)
      return { hit: sum('hit'), read: sum('read'), git: sum('git') }
    },
  })
  for (const [name, help, field, unit] of usageCounters) {
    const read = async () =>
      Object.fromEntries(
        Object.entries(namespaceUsage.total(field)).map(([namespace, count]) => [
          namespace,
          count / unit,
        ]),
      )
    metrics.counter({ name, help, label: 'namespace', read })
  }
}
