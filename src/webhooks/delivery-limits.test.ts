import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { createLanes, type Lanes, type Place } from './delivery-limits.ts'
import { createShares } from './webhook-rotation.ts'

const at = (webhookId: string, repositoryId = 'r', receiver = webhookId): Place => ({
  webhookId,
  receiver,
  repositoryId,
})

/** Has so many attempts of a webhook succeed, one after the other. */
function succeed(lanes: Lanes, webhookId: string, times: number): void {
  for (let n = 0; n < times; n++) {
    const place = at(webhookId)
    lanes.start(place)
    lanes.end(place, 'success')
  }
}

/** Starts all that there is room for; the attempts. */
function fill(lanes: Lanes, ...of: Parameters<typeof at>): Place[] {
  const begun: Place[] = []
  for (;;) {
    const place = at(...of)
    if (lanes.count().room(place) === 0) return begun
    lanes.start(place)
    begun.push(place)
  }
}

test('a window begins at 1, grows by 1 with each success up to 32, and falls to 1 with a failure', () => {
  const lanes = createLanes()
  const room = () => lanes.count().room(at('a'))
  assert.equal(room(), 1)
  succeed(lanes, 'a', 1)
  assert.equal(room(), 2)
  succeed(lanes, 'a', 40)
  assert.equal(room(), 32)
  const place = at('a')
  lanes.start(place)
  assert.equal(room(), 31)
  lanes.end(place, 'failure')
  assert.equal(room(), 1)
})

test('an attempt that tells nothing of its receiver leaves the window as it was', () => {
  const lanes = createLanes()
  succeed(lanes, 'a', 3)
  const place = at('a')
  lanes.start(place)
  lanes.end(place, 'none')
  lanes.end(place, 'failure')
  assert.equal(lanes.count().room(at('a')), 4)
})

test('receivers that do not answer share half of the places, and a repository has 4 of them', () => {
  const lanes = createLanes()
  succeed(lanes, 'good', 40)
  const begun: Place[] = []
  for (let n = 0; n < 200; n++) begun.push(...fill(lanes, `dead${n}`, `r${n % 50}`))
  assert.equal(begun.length, 128)
  const ofOne = begun.filter(({ repositoryId }) => repositoryId === 'r0')
  assert.ok(ofOne.length <= 4, String(ofOne.length))
  assert.equal(lanes.count().room(at('good')), 32)
  assert.equal(lanes.count().closed().cautious.isFull, true)
  assert.deepEqual(lanes.count().closed().open.webhooks, ['good'])
})

test('an address that fails takes nothing from another one of the same host', () => {
  const lanes = createLanes()
  succeed(lanes, 'good', 40)
  const failed = at('bad', 'other', 'good')
  lanes.start(failed)
  lanes.end(failed, 'failure')
  assert.equal(lanes.count().room(at('bad', 'other', 'good')), 1)
  assert.equal(lanes.count().room(at('good')), 32)
  const begun: Place[] = []
  for (let n = 0; n < 100; n++) begun.push(...fill(lanes, `dead${n}`, `r${n}`, 'good'))
  assert.equal(begun.length, 32)
  assert.deepEqual(lanes.count().closed().cautious.receivers, ['good'])
  assert.equal(lanes.count().room(at('good')), 32)
})

test('a repository has 64 places, a quarter of them for webhooks of which nothing is under way', () => {
  const lanes = createLanes()
  const all = Array.from({ length: 30 }, (_, n) => `w${n}`)
  for (const webhookId of all) succeed(lanes, webhookId, 40)
  const begun = all.map((webhookId) => fill(lanes, webhookId, 'one').length)
  assert.deepEqual(begun, [32, 16, ...Array(16).fill(1), ...Array(12).fill(0)])
  assert.deepEqual(lanes.count().closed().open.repositories, ['one'])
  assert.equal(lanes.count().room(at('w29', 'one')), 0)
  assert.equal(lanes.count().room(at('w29', 'other')), 32)
})

test('attempts that take long leave their places to others of the repository', () => {
  const lanes = createLanes()
  for (const webhookId of ['x', 'y', 'good']) succeed(lanes, webhookId, 40)
  const begun = [...fill(lanes, 'x', 'one'), ...fill(lanes, 'y', 'one')]
  assert.equal(begun.length, 48)
  const room = () => lanes.count().room(at('good', 'one'))
  assert.equal(room(), 16)
  for (const place of begun) lanes.slow(place)
  assert.equal(room(), 32)
  assert.equal(lanes.count().room(at('new', 'one')), 0)
})

test('busy lanes leave places for those in which nothing is under way', () => {
  const lanes = createLanes()
  for (let n = 0; n < 40; n++) succeed(lanes, `busy${n}`, 20)
  let all = 0
  for (let n = 0; n < 40; n++) all += fill(lanes, `busy${n}`, `r${n}`).length
  assert.ok(all <= 256)
  succeed(lanes, 'late', 20)
  assert.equal(lanes.countInFlight(), all)
  assert.ok(lanes.count().room(at('busy39')) === 0)
})

test('a lane whose attempt takes long is no open one until it succeeds again', () => {
  const lanes = createLanes()
  succeed(lanes, 'a', 40)
  const begun = fill(lanes, 'a', 'one')
  assert.equal(begun.length, 32)
  const [first = at('')] = begun
  lanes.slow(first)
  assert.equal(lanes.count().room(at('a', 'one')), 0)
  assert.deepEqual(lanes.count().closed().cautious.repositories, ['one'])
  lanes.end(first, 'success')
  assert.deepEqual(lanes.count().closed().cautious.repositories, [])
})

test('whatever happens, no more is under way than may be, and what is closed has no room', () => {
  const number = fc.integer({ min: 0, max: 30 })
  const step = fc.record({
    number,
    result: fc.constantFrom('success', 'success', 'success', 'slow', 'failure', 'none', undefined),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 400 }), (steps) => {
      const lanes = createLanes()
      const begun: Place[] = []
      for (const { result, number } of steps) {
        const oldest = result && begun.shift()
        if (oldest && result) lanes.end(oldest, result)
        else begun.push(...fill(lanes, `w${number}`, `r${number % 12}`, `h${number % 7}`))
        assert.equal(lanes.countInFlight(), begun.length)
        assert.ok(begun.length <= 256)
        const count = lanes.count()
        const closed = count.closed()
        for (const place of begun) {
          const { webhookId, receiver, repositoryId } = place
          const isOpen = closed.open.webhooks.includes(webhookId)
          const { receivers, repositories } = isOpen ? closed.open : closed.cautious
          const isClosed =
            closed.webhooks.includes(webhookId) ||
            (!isOpen && closed.cautious.isFull) ||
            receivers.includes(receiver) ||
            repositories.includes(repositoryId)
          if (isClosed) assert.equal(count.room(place), 0)
        }
      }
    }),
    { numRuns: 100 },
  )
})

test('webhooks of one repository take turns, whoever has waited the longest', () => {
  const lanes = createLanes()
  const shares = createShares()
  const due = ['u', 'v', 'w', 'x', 'y', 'z'].map((id) => at(id, 'one'))
  const turns = Array.from({ length: 3 }, () => [...shares.share(due, lanes.count()).keys()])
  // Four may be begun while nothing is known of their receivers.
  assert.deepEqual(
    turns.map((ids) => ids.join('')),
    ['uvwx', 'yzuv', 'wxuv'],
  )
})

test('room is shared out in a few pieces', () => {
  const lanes = createLanes()
  for (const id of ['x', 'y', 'z']) succeed(lanes, id, 40)
  const due = ['x', 'y', 'z'].map((id) => at(id, 'r', 'host'))
  const [x = 0, y = 0, z = 0] = createShares().share(due, lanes.count()).values()
  assert.equal(x + y + z, 48)
  assert.ok(Math.max(x, y, z) <= 32 && Math.min(x, y, z) >= 8, `${x} ${y} ${z}`)
})
