import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createUnauthenticatedLimit } from './unauthenticated-limit.ts'

test('an address with many clients yields its oldest to one with fewer', async () => {
  const admission = createUnauthenticatedLimit({ perAddress: 3, overall: 6 })
  const left: string[] = []
  const enter = (address: string, name: string) => admission.enter(address, () => left.push(name))
  for (const name of ['a1', 'a2', 'a3']) assert.ok(await enter('a', name))
  for (const name of ['b1', 'b2', 'b3']) assert.ok(await enter('b', name))
  assert.ok(await enter('c', 'c1'))
  assert.deepEqual(left, ['a1'])
  assert.ok(await enter('d', 'd1'))
  assert.deepEqual(left, ['a1', 'b1'])
})

test('an address at its limit queues, and is rejected when its share of the queue is full', async () => {
  const admission = createUnauthenticatedLimit({ perAddress: 1, overall: 100 })
  const first = await admission.enter('a', () => {})
  const waiting = Array.from({ length: 4 }, () => admission.enter('a', () => {}))
  assert.equal(await admission.enter('a', () => {}), undefined)
  assert.ok(await admission.enter('b', () => {}))
  first?.[Symbol.dispose]()
  const second = await waiting[0]
  assert.ok(second)
  second[Symbol.dispose]()
  assert.ok(await waiting[1])
  // A place is given up once.
  second[Symbol.dispose]()
  await Promise.all(waiting)
})

test('a full queue yields to an address with fewer clients in it', async () => {
  const admission = createUnauthenticatedLimit({ perAddress: 2, overall: 2 })
  for (let times = 0; times < 2; times++) await admission.enter('a', () => {})
  const ofA = Array.from({ length: 8 }, () => admission.enter('a', () => {}))
  const ofB = admission.enter('b', () => {})
  assert.ok(await ofB)
  assert.equal((await Promise.all(ofA)).includes(undefined), true)
})
