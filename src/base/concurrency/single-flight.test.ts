import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSingleFlight } from './single-flight.ts'

test('concurrent calls with the same key share one result, later ones do not', async () => {
  const share = createSingleFlight<number>()
  let calls = 0
  const work = async () => ++calls
  assert.deepEqual(
    await Promise.all([share('a', work), share('a', work), share('b', work)]),
    [1, 1, 2],
  )
  assert.equal(await share('a', work), 3)
})

test('a failure rejects all concurrent calls, and the next call tries again', async () => {
  const share = createSingleFlight<string>()
  const fail = () => Promise.reject(new Error('busy'))
  const both = await Promise.allSettled([share('a', fail), share('a', async () => 'done')])
  assert.deepEqual(
    both.map(({ status }) => status),
    ['rejected', 'rejected'],
  )
  assert.equal(await share('a', async () => 'done'), 'done')
})
