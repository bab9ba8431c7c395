import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createOncePerKey, once } from './once.ts'

test('a function is called at the first use only', () => {
  let calls = 0
  const make = once(() => {
    calls += 1
    return undefined
  })
  assert.equal(calls, 0)
  make()
  make()
  assert.equal(calls, 1)
})

test('a function is called once per key', () => {
  const oncePerKey = createOncePerKey<string>()
  assert.equal(
    oncePerKey('a', () => 'first'),
    'first',
  )
  assert.equal(
    oncePerKey('a', () => 'second'),
    'first',
  )
  assert.equal(
    oncePerKey('b', () => 'third'),
    'third',
  )
})
