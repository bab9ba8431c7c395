import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Principal } from '#access/principal.ts'
import { Problem } from '#base/problem.ts'
import { createSubscriberLimit } from './event-routes.ts'

const perUser = 100
const overall = 1000
const isTooMany = (error: unknown) =>
  error instanceof Problem && error.code === 'too_many_followers'

function token(username: string, id = username): Principal {
  return { kind: 'token', id, username, permissions: new Set() }
}

test('requests are limited per user and per server, and one that ends admits another', () => {
  const subscriberLimit = createSubscriberLimit()
  const first = subscriberLimit.acquire(token('0'))
  for (let count = 1; count < overall; count++)
    subscriberLimit.acquire(token(String(Math.floor(count / perUser)), `token ${count}`))
  assert.throws(() => subscriberLimit.acquire(token('0')), isTooMany)
  assert.throws(() => subscriberLimit.acquire(token('other')), isTooMany)
  first[Symbol.dispose]()
  subscriberLimit.acquire(token('other'))
  assert.throws(() => subscriberLimit.acquire(token('0')), isTooMany)
})
