import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTurns } from './turns.ts'

const patient = new AbortController().signal

test('what is too much waits, and starts in order when there is room', async () => {
  const turns = createTurns({ overall: 2, perKey: 2, waiting: 2, waitMs: 60_000 })
  const first = await turns.take(['a'], patient)
  await turns.take(['b'], patient)
  const order: string[] = []
  const later = new AbortController()
  const third = turns.take(['c'], patient).then(() => order.push('c'))
  const fourth = turns.take(['d'], later.signal)
  fourth.then(
    () => order.push('d'),
    () => {},
  )
  await assert.rejects(turns.take(['e'], patient), /try again/)
  first[Symbol.dispose]()
  await third
  assert.deepEqual(order, ['c'])
  later.abort()
})

test('no key gets every turn, so that one token cannot shut the others out', async () => {
  const turns = createTurns({ overall: 8, perKey: 20, waiting: 0, waitMs: 1 })
  const keys = ['repository:1', 'token:1']
  for (let turn = 0; turn < 6; turn++) await turns.take(keys, patient)
  await assert.rejects(turns.take(keys, patient), /try again/)
  await assert.rejects(turns.take(['repository:2', 'token:1'], patient), /try again/)
  await turns.take(['repository:2', 'token:2'], patient)
})

test('who waits too long, or goes away, leaves the queue', async () => {
  const turns = createTurns({ overall: 1, perKey: 1, waiting: 5, waitMs: 20 })
  const held = await turns.take(['a'], patient)
  await assert.rejects(turns.take(['b'], patient), /try again/)
  const gone = new AbortController()
  const waiting = turns.take(['c'], gone.signal)
  gone.abort()
  await assert.rejects(waiting, /try again/)
  held[Symbol.dispose]()
  await turns.take(['d'], patient)
})
