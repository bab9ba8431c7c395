import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createResultCache } from './result-cache.ts'

const lengthOf = (text: string) => text.length

/** Work that counts its calls. */
function counted<T>(result: T) {
  const work = async () => {
    work.times += 1
    return result
  }
  work.times = 0
  return work
}

test('concurrent and later calls with the same key share one result', async () => {
  const share = createResultCache({ lengthOf, maxLength: 100, maxAgeMs: 60_000 })
  const work = counted('done')
  assert.deepEqual(await Promise.all([share('a', work), share('a', work)]), ['done', 'done'])
  assert.equal(await share('a', work), 'done')
  assert.equal(work.times, 1)
  await share('b', work)
  assert.equal(work.times, 2)
})

test('a result may be undefined, and a failure is not cached', async () => {
  const share = createResultCache<undefined>({ lengthOf: () => 0, maxLength: 9, maxAgeMs: 60_000 })
  await assert.rejects(share('a', () => Promise.reject(new Error('busy'))))
  const nothing = counted(undefined)
  await share('a', nothing)
  await share('a', nothing)
  assert.equal(nothing.times, 1)
})

test('the cache is limited in size and time', async () => {
  const share = createResultCache({ lengthOf, maxLength: 20, maxAgeMs: 60_000 })
  const [first, second, huge] = [counted('123456'), counted('123456'), counted('x'.repeat(21))]
  await share('first', first)
  await share('second', second)
  await share('second', second)
  await share('first', first)
  assert.deepEqual([first.times, second.times], [2, 1])
  await share('huge', huge)
  await share('huge', huge)
  assert.equal(huge.times, 2)
  const brief = createResultCache({ lengthOf, maxLength: 20, maxAgeMs: 1 })
  await brief('first', first)
  await sleep(10)
  await brief('first', first)
  assert.equal(first.times, 4)
})
