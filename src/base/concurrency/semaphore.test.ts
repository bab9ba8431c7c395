import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSemaphore } from './semaphore.ts'

const never = new AbortController().signal

test('requests beyond the limit wait for a permit, in order', async () => {
  const semaphore = createSemaphore(1)
  const first = await semaphore.acquire(never)
  const order: string[] = []
  const waiting = ['second', 'third'].map(async (name) => {
    using _permit = await semaphore.acquire(never)
    order.push(name)
  })
  first[Symbol.dispose]()
  first[Symbol.dispose]()
  await Promise.all(waiting)
  assert.deepEqual(order, ['second', 'third'])
})

test('an aborted request takes no permit', async () => {
  const semaphore = createSemaphore(1)
  const first = await semaphore.acquire(never)
  const giving = new AbortController()
  const given = semaphore.acquire(giving.signal)
  giving.abort(new Error('given up'))
  await assert.rejects(given, /given up/)
  const next = semaphore.acquire(never)
  first[Symbol.dispose]()
  ;(await next)[Symbol.dispose]()
  await assert.rejects(semaphore.acquire(giving.signal), /given up/)
})
