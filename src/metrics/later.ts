import type { Metrics } from './metrics.ts'

export type LaterMetrics = ReturnType<typeof createMetricsLater>

const afterMs = 300

/**
 * Metrics that take what they are told at once, and the time and memory that they need a while after the
 * start, or when somebody asks for them.
 */
export function createMetricsLater(options: { version: string }) {
  const waiting: ((metrics: Metrics) => void)[] = []
  let metrics: Metrics | undefined
  let loading: Promise<Metrics> | undefined

  function load(): Promise<Metrics> {
    loading ??= import('./metrics.ts').then(({ createMetrics }) => {
      metrics = createMetrics(options)
      for (const act of waiting.splice(0)) act(metrics)
      return metrics
    })
    return loading
  }

  function tell<
    K extends
      | 'answered'
      | 'operated'
      | 'fetched'
      | 'attempted'
      | 'maintained'
      | 'gauge'
      | 'counter',
  >(kind: K) {
    // What is told is of the kind that the function takes; the two are bound by K.
    const pass = (to: Metrics, said: Parameters<Metrics[K]>[0]) =>
      (to[kind] as (said: Parameters<Metrics[K]>[0]) => void)(said)
    return (said: Parameters<Metrics[K]>[0]): void => {
      if (metrics) pass(metrics, said)
      else waiting.push((to) => pass(to, said))
    }
  }

  return {
    answered: tell('answered'),
    operated: tell('operated'),
    fetched: tell('fetched'),
    attempted: tell('attempted'),
    maintained: tell('maintained'),
    gauge: tell('gauge'),
    counter: tell('counter'),
    render: async () => (await load()).render(),

    /** Loads them soon, unless the program ends before. */
    prepare: () => void setTimeout(() => load().catch(() => {}), afterMs).unref(),
  }
}
