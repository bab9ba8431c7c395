import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PageTime } from './page-time.ts'

const day = 86_400_000

test('a time is right until the first of its ages has other words', () => {
  const at = 1_700_000_000_000
  // All changes of the words of an age, from a second to many years.
  const distances = [0, 1, 9.999, 10, 59.5, 60, 61, 3599, 3600, 86_399, 7 * 86_400, 3e6, 9e7, 1e9]
  for (const distance of distances) {
    const now = at + distance * 1000
    const time = new PageTime(now)
    const { text } = time.age(at)
    assert.ok(time.validUntil > now, `${distance} s`)
    assert.equal(new PageTime(time.validUntil - 1).age(at).text, text, `${distance} s`)
    assert.notEqual(new PageTime(time.validUntil).age(at).text, text, `${distance} s`)
  }
})

test('the earliest of several changes counts', () => {
  const now = 1_700_000_000_000
  const time = new PageTime(now)
  time.age(now - 400 * day)
  time.age(now - 5000)
  time.age(now - 3 * day)
  assert.equal(time.validUntil, now + 5000)
})

test('what has a time to come is right for no time', () => {
  const time = new PageTime(1000)
  time.age(1001)
  assert.equal(time.validUntil, 1000)
})

test('the step of an age is right until the next one', () => {
  const limits = [7 * day, 30 * day, Number.POSITIVE_INFINITY]
  const step = (ageMs: number) => {
    const time = new PageTime(100 * day)
    return [time.stepOf(100 * day - ageMs, limits), time.validUntil - 100 * day]
  }
  assert.deepEqual(step(day), [0, 6 * day])
  assert.deepEqual(step(7 * day), [1, 23 * day])
  assert.deepEqual(step(90 * day), [2, Number.POSITIVE_INFINITY])
})
