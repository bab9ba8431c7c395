import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Principal } from '../access/principal.ts'
import { Problem } from '../base/problem.ts'
import { createSubscriberLimit } from './subscriber-limit.ts'

const perToken = 100
const overall = 1000
const isTooMany = (error: unknown) =>
  error instanceof Problem && error.code === 'too_many_followers'

function token(id: string): Principal {
  return { kind: 'token', id, username: id, permissions: new Set() }
}

test('requests are limited per token and per server, and one that ends admits another', () => {
  const subscriberLimit = createSubscriberLimit()
  const first = subscriberLimit.acquire(token('0'))
  for (let count = 1; count < overall; count++)
    subscriberLimit.acquire(token(String(Math.floor(count / perToken))))
  assert.throws(() => subscriberLimit.acquire(token('0')), isTooMany)
  assert.throws(() => subscriberLimit.acquire(token('other')), isTooMany)
  first[Symbol.dispose]()
  subscriberLimit.acquire(token('other'))
  assert.throws(() => subscriberLimit.acquire(token('0')), isTooMany)
})
