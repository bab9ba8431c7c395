import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSemaphore } from './semaphore.ts'

const never = new AbortController().signal

test('requests beyond the limit wait for a permit, in order', async () => {
  const slots = createSemaphore(1)
  const first = await slots.acquire(never)
  const order: string[] = []
  const waiting = ['second', 'third'].map(async (name) => {
    using _slot = await slots.acquire(never)
    order.push(name)
  })
  first[Symbol.dispose]()
  first[Symbol.dispose]()
  await Promise.all(waiting)
  assert.deepEqual(order, ['second', 'third'])
})

test('an aborted request takes no permit', async () => {
  const slots = createSemaphore(1)
  const first = await slots.acquire(never)
  const giving = new AbortController()
  const given = slots.acquire(giving.signal)
  giving.abort(new Error('given up'))
  await assert.rejects(given, /given up/)
  const next = slots.acquire(never)
  first[Symbol.dispose]()
  ;(await next)[Symbol.dispose]()
  await assert.rejects(slots.acquire(giving.signal), /given up/)
})
