import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createQuota } from './quota.ts'

test('places are limited per key and overall, and a released one can be acquired again', () => {
  const quota = createQuota({ overall: 3, perKey: 2 })
  const first = quota.acquire('a')
  assert.equal(typeof first, 'object')
  quota.acquire('a')
  assert.equal(quota.acquire('a'), 'per-key')
  quota.acquire('b')
  assert.equal(quota.acquire('b'), 'overall')
  if (typeof first === 'object') first[Symbol.dispose]()
  assert.equal(typeof quota.acquire('b'), 'object')
  assert.equal(quota.acquire('a'), 'overall')
})
