import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'

export type Metrics = ReturnType<typeof createMetrics>

type CompletedRequest = { method: string; route: string; status: number; seconds: number }
type Operation = { kind: string; via: string; outcome: string; seconds: number }
type Fetched = { via: string; source: string }
type Maintained = { outcome: string; seconds: number }
type Attempted = { event: string; outcome: string; seconds: number }

type Counts = Record<string, number>
/** The value, or one for each value of the label. */
type Read = number | Counts

type ReadOptions<Label extends string, Value> = {
  name: string
  help: string
  label?: Label
  read: () => Promise<Value>
}

// Gauges that are called as counters are; `nodejs_active_handles` and the others beside them say more.
const misnamed = ['handles', 'requests', 'resources'].map((what) => `nodejs_active_${what}_total`)
// The event loop's delay is measured by a timer that wakes up the program.
const eventLoopEveryMs = 50
// A scrape that waits for what hangs would tell nothing of the rest.
const readWithinMs = 2000
const requestBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 300]
const maintenanceBuckets = [0.1, 0.5, 1, 5, 10, 60, 300, 1800, 7200]

/**
 * Counts and measures what the program does, for Prometheus:
 * https://prometheus.io/docs/instrumenting/exposition_formats/ Labels have few values, all of them ours.
 */
export function createMetrics({ version }: { version: string }) {
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: eventLoopEveryMs })
  for (const name of misnamed) registry.removeSingleMetric(name)
  new Gauge({
    name: 'svc_build_info',
    help: 'The version that runs; always 1.',
    labelNames: ['version'],
    registers,
  }).set({ version }, 1)

  const requests = new Counter({
    name: 'svc_http_requests_total',
    help: 'HTTP requests that were answered, by route template, method and status.',
    labelNames: ['method', 'route', 'status'],
    registers,
  })
  const requestSeconds = new Histogram({
    name: 'svc_http_request_duration_seconds',
    help: 'Time from the headers of an HTTP request to the end of its answer.',
    labelNames: ['method', 'route'],
    buckets: requestBuckets,
    registers,
  })
  const operations = new Counter({
    name: 'svc_git_operations_total',
    help: 'Git operations by kind, via (http, ssh) and outcome (done, failed, refused, cut_off).',
    labelNames: ['kind', 'via', 'outcome'],
    registers,
  })
  const operationSeconds = new Histogram({
    name: 'svc_git_operation_duration_seconds',
    help: 'Time that Git operations took, with their wait for a turn.',
    labelNames: ['kind', 'via'],
    buckets: requestBuckets,
    registers,
  })
  const fetches = new Counter({
    name: 'svc_fetch_cache_total',
    help: 'Fetches and clones by via (http, ssh) and where their answer came from (hit, joined, missed, passed).',
    labelNames: ['via', 'result'],
    registers,
  })
  const attempts = new Counter({
    name: 'svc_webhook_attempts_total',
    help: 'Attempts of webhook deliveries by event and outcome (success, failed).',
    labelNames: ['event', 'outcome'],
    registers,
  })
  const attemptSeconds = new Histogram({
    name: 'svc_webhook_attempt_duration_seconds',
    help: 'Time that attempts of webhook deliveries took.',
    labelNames: ['outcome'],
    buckets: requestBuckets,
    registers,
  })
  const maintenance = new Counter({
    name: 'svc_maintenance_runs_total',
    help: 'Maintenance of repositories by outcome (done, failed, interrupted, gone).',
    labelNames: ['outcome'],
    registers,
  })
  const maintenanceSeconds = new Histogram({
    name: 'svc_maintenance_duration_seconds',
    help: 'Time that the maintenance of a repository took.',
    buckets: maintenanceBuckets,
    registers,
  })
  const maintainedAt = new Gauge({
    name: 'svc_maintenance_last_success_timestamp_seconds',
    help: 'When a maintenance last succeeded since the start; 0 when none has.',
    registers,
  })

  return {
    answered({ method, route, status, seconds }: CompletedRequest): void {
      requests.inc({ method, route, status })
      requestSeconds.observe({ method, route }, seconds)
    },

    operated({ kind, via, outcome, seconds }: Operation): void {
      operations.inc({ kind, via, outcome })
      operationSeconds.observe({ kind, via }, seconds)
    },

    fetched: ({ via, source }: Fetched): void => fetches.inc({ via, result: source }),

    attempted({ event, outcome, seconds }: Attempted): void {
      attempts.inc({ event, outcome })
      attemptSeconds.observe({ outcome }, seconds)
    },

    maintained({ outcome, seconds }: Maintained): void {
      maintenance.inc({ outcome })
      maintenanceSeconds.observe(seconds)
      if (outcome === 'done') maintainedAt.setToCurrentTime()
    },

    /** Adds a value that is read at each scrape; one that cannot be read is NaN. */
    gauge<Label extends string>({ name, help, label, read }: ReadOptions<Label, Read>): void {
      new Gauge({
        name,
        help,
        labelNames: label === undefined ? [] : [label],
        registers,
        async collect() {
          const value = await inTime(read())
          // What was read before would look like what is true now.
          if (label !== undefined) this.reset()
          if (typeof value === 'number') return label === undefined ? this.set(value) : undefined
          for (const [of, one] of Object.entries(value)) this.labels(of).set(one)
        },
      })
    },

    /** Adds counts by the value of a label that are read at each scrape; those that cannot be read are left out. */
    counter({ name, help, label, read }: Required<ReadOptions<string, Counts>>): void {
      new Counter({
        name,
        help,
        labelNames: [label],
        registers,
        async collect() {
          const counts = await inTime<Counts>(read())
          this.reset()
          if (typeof counts === 'number') return
          for (const [of, one] of Object.entries(counts)) this.labels(of).inc(one)
        },
      })
    },

    /** All of it, as text. */
    render: () => registry.metrics(),
  }
}

async function inTime<T>(reading: Promise<T>): Promise<T | number> {
  const late = Promise.withResolvers<number>()
  const timer = setTimeout(() => late.resolve(Number.NaN), readWithinMs)
  return Promise.race([reading.catch(() => Number.NaN), late.promise]).finally(() =>
    clearTimeout(timer),
  )
}
