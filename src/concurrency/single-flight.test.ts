import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSingleFlight } from './single-flight.ts'

const lengthOf = (text: string) => text.length

/** Work that counts its calls. */
function counted(result: string) {
  const work = async () => {
    work.times += 1
    return result
  }
  work.times = 0
  return work
}

test('concurrent calls with the same key share one result, and so do later ones for a while', async () => {
  const share = createSingleFlight({ lengthOf, maxLength: 100, ttlMs: 60_000 })
  const work = counted('done')
  assert.deepEqual(await Promise.all([share('a', work), share('a', work)]), ['done', 'done'])
  assert.equal(await share('a', work), 'done')
  assert.equal(work.times, 1)
  await share('b', work)
  assert.equal(work.times, 2)
})

test('a failure rejects all concurrent calls, and the next call tries again', async () => {
  const share = createSingleFlight({ lengthOf, maxLength: 100, ttlMs: 60_000 })
  const fail = () => Promise.reject(new Error('busy'))
  const both = await Promise.allSettled([share('a', fail), share('a', counted('done'))])
  assert.deepEqual(
    both.map(({ status }) => status),
    ['rejected', 'rejected'],
  )
  assert.equal(await share('a', counted('done')), 'done')
})

test('the cache is limited in size and time', async () => {
  const share = createSingleFlight({ lengthOf, maxLength: 20, ttlMs: 60_000 })
  const [first, second, huge] = [counted('123456'), counted('123456'), counted('x'.repeat(21))]
  await share('first', first)
  await share('second', second)
  await share('second', second)
  await share('first', first)
  assert.deepEqual([first.times, second.times], [2, 1])
  await share('huge', huge)
  await share('huge', huge)
  assert.equal(huge.times, 2)
  const brief = createSingleFlight({ lengthOf, maxLength: 20, ttlMs: 0 })
  await brief('first', first)
  await brief('first', first)
  assert.equal(first.times, 4)
})
