import { once } from '../base/once.ts'
import type { Metrics } from './metrics.ts'

export type LaterMetrics = ReturnType<typeof createMetricsLater>

const afterMs = 300

/** Metrics whose library is loaded after the start, or for the first scrape. What is recorded before is queued. */
export function createMetricsLater(options: { version: string }) {
  const waiting: ((metrics: Metrics) => void)[] = []
  let metrics: Metrics | undefined

  const load = once(async () => {
    const { createMetrics } = await import('./metrics.ts')
    metrics = createMetrics(options)
    for (const apply of waiting.splice(0)) apply(metrics)
    return metrics
  })

  function record<
    K extends
      | 'answered'
      | 'operated'
      | 'fetched'
      | 'attempted'
      | 'maintained'
      | 'gauge'
      | 'counter',
  >(kind: K) {
    // K binds the function to the type of its argument.
    const pass = (to: Metrics, value: Parameters<Metrics[K]>[0]) =>
      (to[kind] as (value: Parameters<Metrics[K]>[0]) => void)(value)
    return (value: Parameters<Metrics[K]>[0]): void => {
      if (metrics) pass(metrics, value)
      else waiting.push((to) => pass(to, value))
    }
  }

  return {
    answered: record('answered'),
    operated: record('operated'),
    fetched: record('fetched'),
    attempted: record('attempted'),
    maintained: record('maintained'),
    gauge: record('gauge'),
    counter: record('counter'),
    render: async () => (await load()).render(),

    /** Loads the library soon; does not keep the process alive. */
    prepare: () => void setTimeout(() => load().catch(() => {}), afterMs).unref(),
  }
}
