import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTick } from 'node:timers/promises'
import { writeBudget } from './write-budget.ts'

const half = 512 * 1024

test('about a mebibyte is written in each tick, first come, first served', async () => {
  const written: number[] = []
  const write = async (index: number) => {
    await writeBudget(half)
    written.push(index)
  }
  for (let index = 0; index < 7; index++) void write(index)
  const counts: number[] = []
  while (written.length < 7) {
    await Promise.resolve()
    counts.push(written.length)
    await nextTick()
  }
  assert.deepEqual(written, [0, 1, 2, 3, 4, 5, 6])
  assert.deepEqual(counts, [2, 4, 6])
})

test('a write that is alone, of any size, does not wait', async () => {
  for (const bytes of [1, 4 * half, 1]) {
    assert.equal(writeBudget(bytes), undefined)
    await nextTick()
  }
})
