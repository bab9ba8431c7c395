import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import { within } from '#base/timeouts.ts'

export type Metrics = ReturnType<typeof createMetrics>

type CompletedRequest = { method: string; route: string; status: number; seconds: number }
type Operation = { kind: string; via: string; outcome: string; seconds: number }
type Fetched = { via: string; source: string }
type Maintained = { outcome: string; seconds: number }
type Attempted = { event: string; outcome: string; seconds: number }

type Counts = Record<string, number>
/** A number, or one per value of the label. */
type GaugeValue = number | Counts

type ReadOptions<Label extends string, Value> = {
  name: string
  help: string
  label?: Label
  read: () => Promise<Value>
}

// Gauges that are named like counters; `nodejs_active_handles` and its siblings have more detail.
const misnamed = ['handles', 'requests', 'resources'].map((name) => `nodejs_active_${name}_total`)
// The event loop delay is measured by a timer, which wakes the process.
const eventLoopResolutionMs = 50
// One value that hangs must not block the whole scrape.
const readTimeoutMs = 2000
const requestBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 300]
const maintenanceBuckets = [0.1, 0.5, 1, 5, 10, 60, 300, 1800, 7200]

/**
 * Collects metrics for Prometheus: https://prometheus.io/docs/instrumenting/exposition_formats/. Labels have few values,
 * none of them chosen by clients, except the names of namespaces that were used since the start.
 */
export function createMetrics({ version }: { version: string }) {
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: eventLoopResolutionMs })
  for (const name of misnamed) registry.removeSingleMetric(name)
  new Gauge({
    name: 'svc_build_info',
    help: 'Running version, as a label; always 1.',
    labelNames: ['version'],
    registers,
  }).set({ version }, 1)

  const requests = new Counter({
    name: 'svc_http_requests_total',
    help: 'Completed HTTP requests by route template, method and status.',
    labelNames: ['method', 'route', 'status'],
    registers,
  })
  const requestSeconds = new Histogram({
    name: 'svc_http_request_duration_seconds',
    help: 'Time from the headers of an HTTP request to the end of its response.',
    labelNames: ['method', 'route'],
    buckets: requestBuckets,
    registers,
  })
  const operations = new Counter({
    name: 'svc_git_operations_total',
    help: 'Git operations by kind, via (http, ssh, api) and outcome (done, failed, refused, cut_off).',
    labelNames: ['kind', 'via', 'outcome'],
    registers,
  })
  const operationSeconds = new Histogram({
    name: 'svc_git_operation_duration_seconds',
    help: 'Duration of Git operations, including their wait for the limiter.',
    labelNames: ['kind', 'via'],
    buckets: requestBuckets,
    registers,
  })
  const fetches = new Counter({
    name: 'svc_fetch_cache_total',
    help: 'Fetches and clones by via (http, ssh) and source of the response (hit, coalesced, miss, bypassed, packs).',
    labelNames: ['via', 'result'],
    registers,
  })
  const attempts = new Counter({
    name: 'svc_webhook_attempts_total',
    help: 'Webhook delivery attempts by event and outcome (success, failed).',
    labelNames: ['event', 'outcome'],
    registers,
  })
  const attemptSeconds = new Histogram({
    name: 'svc_webhook_attempt_duration_seconds',
    help: 'Duration of webhook delivery attempts.',
    labelNames: ['outcome'],
    buckets: requestBuckets,
    registers,
  })
  const maintenance = new Counter({
    name: 'svc_maintenance_runs_total',
    help: 'Repository maintenance runs by outcome (done, failed, interrupted, gone).',
    labelNames: ['outcome'],
    registers,
  })
  const maintenanceSeconds = new Histogram({
    name: 'svc_maintenance_duration_seconds',
    help: 'Duration of repository maintenance.',
    buckets: maintenanceBuckets,
    registers,
  })
  const maintainedAt = new Gauge({
    name: 'svc_maintenance_last_success_timestamp_seconds',
    help: 'Time of the last successful maintenance since the start; 0 when there was none.',
    registers,
  })

  return {
    completed({ method, route, status, seconds }: CompletedRequest): void {
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

    /** Adds a value that is read at each scrape; an unreadable value is NaN. */
    gauge<Label extends string>({ name, help, label, read }: ReadOptions<Label, GaugeValue>): void {
      new Gauge({
        name,
        help,
        labelNames: label === undefined ? [] : [label],
        registers,
        async collect() {
          const value = await withTimeout(read())
          // Drops values of labels that the new reading no longer has.
          if (label !== undefined) this.reset()
          if (typeof value === 'number') return label === undefined ? this.set(value) : undefined
          for (const [labelValue, count] of Object.entries(value))
            this.labels(labelValue).set(count)
        },
      })
    },

    /** Adds counts per label value that are read at each scrape; unreadable counts are omitted. */
    counter({ name, help, label, read }: Required<ReadOptions<string, Counts>>): void {
      new Counter({
        name,
        help,
        labelNames: [label],
        registers,
        async collect() {
          const counts = await withTimeout<Counts>(read())
          this.reset()
          if (typeof counts === 'number') return
          for (const [labelValue, count] of Object.entries(counts))
            this.labels(labelValue).inc(count)
        },
      })
    },

    /** All metrics in the text format. */
    render: () => registry.metrics(),
  }
}

function withTimeout<T>(reading: Promise<T>): Promise<T | number> {
  return within(readTimeoutMs, reading).catch(() => Number.NaN)
}
