import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createUnauthenticatedLimit } from './unauthenticated-limit.ts'

const client = { onRevoked() {} }

test('an address with many clients yields its oldest to one with fewer', async () => {
  const limit = createUnauthenticatedLimit({ perAddress: 3, overall: 6 })
  const left: string[] = []
  const acquire = (address: string, name: string) =>
    limit.acquire(address, { onRevoked: () => left.push(name) })
  for (const name of ['a1', 'a2', 'a3']) assert.ok(await acquire('a', name))
  for (const name of ['b1', 'b2', 'b3']) assert.ok(await acquire('b', name))
  assert.ok(await acquire('c', 'c1'))
  assert.deepEqual(left, ['a1'])
  assert.ok(await acquire('d', 'd1'))
  assert.deepEqual(left, ['a1', 'b1'])
})

test('an address at its limit queues, and is rejected when its share of the queue is full', async () => {
  const limit = createUnauthenticatedLimit({ perAddress: 1, overall: 100 })
  const first = await limit.acquire('a', client)
  const waiting = Array.from({ length: 4 }, () => limit.acquire('a', client))
  assert.equal(await limit.acquire('a', client), undefined)
  assert.ok(await limit.acquire('b', client))
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
  const limit = createUnauthenticatedLimit({ perAddress: 2, overall: 2 })
  for (let times = 0; times < 2; times++) await limit.acquire('a', client)
  const ofA = Array.from({ length: 8 }, () => limit.acquire('a', client))
  const ofB = limit.acquire('b', client)
  assert.ok(await ofB)
  assert.equal((await Promise.all(ofA)).includes(undefined), true)
})

test('an idle client yields to another one of its address', async () => {
  const limit = createUnauthenticatedLimit({ perAddress: 2, overall: 100 })
  const left: string[] = []
  const acquire = (name: string, isIdle: boolean) =>
    limit.acquire('a', { onRevoked: () => left.push(name), isIdle: () => isIdle })
  assert.ok(await acquire('busy', false))
  assert.ok(await acquire('idle', true))
  assert.ok(await acquire('next', false))
  assert.deepEqual(left, ['idle'])
})
