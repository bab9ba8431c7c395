import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { atEndOfTick } from './end-of-tick.ts'

test('callbacks run together at the end of the turn, in order, and those that they schedule in the next', async () => {
  const done: string[] = []
  atEndOfTick(() => {
    done.push('first')
    atEndOfTick(() => done.push('next'))
  })
  atEndOfTick(() => done.push('second'))
  await Promise.resolve()
  assert.deepEqual(done, [])
  await turn()
  assert.deepEqual(done.slice(0, 2), ['first', 'second'])
  await turn()
  assert.deepEqual(done, ['first', 'second', 'next'])
})
