import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMetrics } from './metrics.ts'

test('values are read at each scrape, and labels without values are dropped', async () => {
  const metrics = createMetrics({ version: '1' })
  let counts: Record<string, number> = { queued: 1, running: 2 }
  metrics.gauge({ name: 'runs', help: 'Runs.', label: 'status', read: async () => counts })
  assert.deepEqual(await samples(metrics, 'runs'), [
    'runs{status="queued"} 1',
    'runs{status="running"} 2',
  ])
  counts = { queued: 3 }
  assert.deepEqual(await samples(metrics, 'runs'), ['runs{status="queued"} 3'])
})

test('a value that cannot be read is NaN, and the other values are shown', async () => {
  const metrics = createMetrics({ version: '1' })
  metrics.gauge({ name: 'broken', help: 'x', read: () => Promise.reject(new Error('no database')) })
  metrics.gauge({ name: 'fine', help: 'x', read: async () => 7 })
  metrics.counter({
    name: 'lost_total',
    help: 'x',
    label: 'by',
    read: () => Promise.reject(new Error('no process')),
  })
  assert.deepEqual(await samples(metrics, 'broken'), ['broken Nan'])
  assert.deepEqual(await samples(metrics, 'fine'), ['fine 7'])
  assert.deepEqual(await samples(metrics, 'lost_total'), [])
})

async function samples(metrics: ReturnType<typeof createMetrics>, name: string) {
  const lines = (await metrics.render()).split('\n')
  return lines.filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
}
