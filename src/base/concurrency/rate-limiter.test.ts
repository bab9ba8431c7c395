import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRateLimiter } from './rate-limiter.ts'

test('a bucket gives its burst, then tokens at its rate', () => {
  let now = 0
  const buckets = createRateLimiter({ perSecond: 2, burst: 3, clock: { now: () => now } })
  assert.deepEqual(
    [1, 2, 3].map(() => buckets.acquire('a')),
    [0, 0, 0],
  )
  assert.equal(buckets.acquire('a'), 1)
  assert.equal(buckets.acquire('b'), 0)
  now += 500
  assert.equal(buckets.acquire('a'), 0)
  assert.equal(buckets.acquire('a'), 1)
  now += 60_000
  assert.deepEqual(
    [1, 2, 3, 4].map(() => buckets.acquire('a')),
    [0, 0, 0, 1],
  )
})

test('a clock that is set back takes nothing away', () => {
  let now = 3_600_000
  const buckets = createRateLimiter({ perSecond: 1, burst: 2, clock: { now: () => now } })
  buckets.acquire('a')
  now = 0
  assert.equal(buckets.acquire('a'), 0)
  now += 1000
  assert.equal(buckets.acquire('a'), 0)
})

test('a flood of keys takes bounded memory and drops the oldest first', () => {
  const buckets = createRateLimiter({ perSecond: 0.001, burst: 1, clock: { now: () => 0 } })
  buckets.acquire('first')
  buckets.acquire('second')
  for (let key = 0; key < 19_999; key++) buckets.acquire(String(key))
  assert.equal(buckets.acquire('first'), 0)
  assert.ok(buckets.acquire('19998') > 0)
})
