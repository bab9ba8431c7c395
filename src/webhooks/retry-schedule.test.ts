import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { maxAttempts, nextAttemptAt, parseRetryAfter } from './retry-schedule.ts'

const now = 1_795_184_328_000
const failed = {
  schedule: [0, 5, 300] as const,
  event: 'push',
  attempts: 1,
  now,
  retryAfterMs: undefined,
  random: 0.5,
}

test('each attempt has its delay, and there is none after the last', () => {
  assert.equal(nextAttemptAt(failed), now + 5000)
  assert.equal(nextAttemptAt({ ...failed, attempts: 2 }), now + 300_000)
  assert.equal(nextAttemptAt({ ...failed, attempts: 3 }), undefined)
  assert.equal(nextAttemptAt({ ...failed, attempts: 9 }), undefined)
  assert.equal(maxAttempts('push', failed.schedule), 3)
})

test('a ping is attempted once', () => {
  assert.equal(maxAttempts('ping', failed.schedule), 1)
  assert.equal(nextAttemptAt({ ...failed, event: 'ping' }), undefined)
})

test('delays vary by a tenth, but one of 0 does not', () => {
  fc.assert(
    fc.property(fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }), (random) => {
      const at = nextAttemptAt({ ...failed, attempts: 2, random }) ?? 0
      assert.ok(at >= now + 270_000 && at <= now + 330_000, String(at))
      assert.equal(nextAttemptAt({ ...failed, schedule: [0, 0], random }), now)
    }),
  )
  assert.equal(nextAttemptAt({ ...failed, attempts: 2, random: 0 }), now + 270_000)
})

test('a retry waits for Retry-After, and never less than the schedule', () => {
  assert.equal(nextAttemptAt({ ...failed, retryAfterMs: 60_000 }), now + 60_000)
  assert.equal(nextAttemptAt({ ...failed, retryAfterMs: 1000 }), now + 5000)
})

test('Retry-After is read in seconds and as a date, and is a day at most', () => {
  const day = 86_400_000
  const cases: [string, number | undefined][] = [
    ['120', 120_000],
    [' 120 ', 120_000],
    ['0', 0],
    ['999999999999999999999', day],
    [new Date(now + 30_000).toUTCString(), 30_000],
    [new Date(now - 30_000).toUTCString(), 0],
    ['Fri, 31 Dec 9999 23:59:59 GMT', day],
    ['', undefined],
    ['-1', undefined],
    ['1.5', undefined],
    ['1e9', undefined],
    ['soon', undefined],
    ['2026', 2_026_000],
  ]
  for (const [text, ms] of cases) assert.equal(parseRetryAfter(text, now), ms, text)
})
