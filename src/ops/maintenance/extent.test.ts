import assert from 'node:assert/strict'
import { test } from 'node:test'
import { dayMs } from '#base/clock.ts'
import { affordableExtent, dueExtent, retryDelayMs } from './extent.ts'

const now = 100 * dayMs

test('a requested extent is used; otherwise unpruned objects of more than a week need a full one', () => {
  const longAgo = { isUnpruned: 1, prunedAt: now - 8 * dayMs }
  assert.equal(dueExtent({ wanted: 'quick', ...longAgo }, now), 'quick')
  assert.equal(dueExtent({ wanted: 'full', isUnpruned: 0, prunedAt: now }, now), 'full')
  assert.equal(dueExtent({ wanted: '', ...longAgo }, now), 'full')
  assert.equal(dueExtent({ wanted: '', ...longAgo, isUnpruned: 0 }, now), 'quick')
  assert.equal(dueExtent({ wanted: '', isUnpruned: 1, prunedAt: now - 6 * dayMs }, now), 'quick')
})

test('a repack that lacks space is reduced to the refs', () => {
  const storage = { bytes: 100, largest: 80 }
  assert.deepEqual(affordableExtent('full', storage, 100), { extent: 'full' })
  assert.deepEqual(affordableExtent('quick', storage, 20), { extent: 'quick' })
  for (const [wanted, availableBytes] of [
    ['full', 99],
    ['quick', 19],
    ['quick', -5],
  ] as const) {
    const { extent, error } = affordableExtent(wanted, storage, availableBytes)
    assert.equal(extent, 'refs')
    assert.match(error?.message ?? '', new RegExp(`^Only ${availableBytes} bytes are available`))
  }
})

test('the delay after a failure doubles, up to a day', () => {
  const minutes = [0, 1, 2, 7, 8, 1000].map((failures) => retryDelayMs(failures) / 60_000)
  assert.deepEqual(minutes, [10, 20, 40, 1280, 1440, 1440])
})
