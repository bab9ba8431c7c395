import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBatcher } from './batcher.ts'

test('what is asked for at once is done together, in its order, and each has its own result', async () => {
  const batches: number[][] = []
  const double = createBatcher({ most: 3, apartMs: 0 }, async (items: number[]) => {
    batches.push(items)
    return items.map((item) => item * 2)
  })
  assert.deepEqual(await Promise.all([1, 2, 3, 4].map(double)), [2, 4, 6, 8])
  assert.deepEqual(batches, [[1, 2, 3], [4]])
  assert.equal(await double(5), 10)
})

test('one that fails is not the fault of the others', async () => {
  const work = createBatcher({ most: 10, apartMs: 0 }, async (items: number[]) => {
    if (items.includes(2)) throw new Error('two')
    return items
  })
  const ends = await Promise.allSettled([1, 2, 3].map(work))
  assert.deepEqual(
    ends.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  )
})
