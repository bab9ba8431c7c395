import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBatcher } from './batcher.ts'

test('concurrent items share batches, in order, and each gets its own result', async () => {
  const batches: number[][] = []
  const double = createBatcher({ maxItems: 3, minIntervalMs: 0 }, async (items: number[]) => {
    batches.push(items)
    return items.map((item) => item * 2)
  })
  assert.deepEqual(await Promise.all([1, 2, 3, 4].map(double)), [2, 4, 6, 8])
  assert.deepEqual(batches, [[1, 2, 3], [4]])
  assert.equal(await double(5), 10)
})

test('an item that fails does not fail the others', async () => {
  const work = createBatcher({ maxItems: 10, minIntervalMs: 0 }, async (items: number[]) => {
    if (items.includes(2)) throw new Error('two')
    return items
  })
  const ends = await Promise.allSettled([1, 2, 3].map(work))
  assert.deepEqual(
    ends.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  )
})
