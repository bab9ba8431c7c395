import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  createDeliveryLimits,
  type DeliveryLimits,
  type DeliveryTarget,
} from './delivery-limits.ts'
import { createWebhookRotation } from './webhook-rotation.ts'

const at = (webhookId: string, repositoryId = 'r', receiver = webhookId): DeliveryTarget => ({
  webhookId,
  receiver,
  repositoryId,
})

/** Has so many attempts of a webhook succeed, one after the other. */
function succeed(deliveryLimits: DeliveryLimits, webhookId: string, times: number): void {
  for (let n = 0; n < times; n++) {
    const place = at(webhookId)
    deliveryLimits.start(place)
    deliveryLimits.end(place, 'success')
  }
}

/** Starts all that there is room for; the attempts. */
function fill(deliveryLimits: DeliveryLimits, ...of: Parameters<typeof at>): DeliveryTarget[] {
  const begun: DeliveryTarget[] = []
  for (;;) {
    const place = at(...of)
    if (deliveryLimits.count().room(place) === 0) return begun
    deliveryLimits.start(place)
    begun.push(place)
  }
}

test('a window begins at 1, grows by 1 with each success up to 32, and falls to 1 with a failure', () => {
  const deliveryLimits = createDeliveryLimits()
  const room = () => deliveryLimits.count().room(at('a'))
  assert.equal(room(), 1)
  succeed(deliveryLimits, 'a', 1)
  assert.equal(room(), 2)
  succeed(deliveryLimits, 'a', 40)
  assert.equal(room(), 32)
  const place = at('a')
  deliveryLimits.start(place)
  assert.equal(room(), 31)
  deliveryLimits.end(place, 'failure')
  assert.equal(room(), 1)
})

test('an attempt that tells nothing of its receiver leaves the window as it was', () => {
  const deliveryLimits = createDeliveryLimits()
  succeed(deliveryLimits, 'a', 3)
  const place = at('a')
  deliveryLimits.start(place)
  deliveryLimits.end(place, 'none')
  deliveryLimits.end(place, 'failure')
  assert.equal(deliveryLimits.count().room(at('a')), 4)
})

test('receivers that do not answer share half of the places, and a repository has 4 of them', () => {
  const deliveryLimits = createDeliveryLimits()
  succeed(deliveryLimits, 'good', 40)
  const begun: DeliveryTarget[] = []
  for (let n = 0; n < 200; n++) begun.push(...fill(deliveryLimits, `dead${n}`, `r${n % 50}`))
  assert.equal(begun.length, 128)
  const ofOne = begun.filter(({ repositoryId }) => repositoryId === 'r0')
  assert.ok(ofOne.length <= 4, String(ofOne.length))
  assert.equal(deliveryLimits.count().room(at('good')), 32)
  assert.equal(deliveryLimits.count().closed().cautious.isFull, true)
  assert.deepEqual(deliveryLimits.count().closed().open.webhooks, ['good'])
})

test('an address that fails takes nothing from another one of the same host', () => {
  const deliveryLimits = createDeliveryLimits()
  succeed(deliveryLimits, 'good', 40)
  const failed = at('bad', 'other', 'good')
  deliveryLimits.start(failed)
  deliveryLimits.end(failed, 'failure')
  assert.equal(deliveryLimits.count().room(at('bad', 'other', 'good')), 1)
  assert.equal(deliveryLimits.count().room(at('good')), 32)
  const begun: DeliveryTarget[] = []
  for (let n = 0; n < 100; n++) begun.push(...fill(deliveryLimits, `dead${n}`, `r${n}`, 'good'))
  assert.equal(begun.length, 32)
  assert.deepEqual(deliveryLimits.count().closed().cautious.receivers, ['good'])
  assert.equal(deliveryLimits.count().room(at('good')), 32)
})

test('a repository has 64 places, a quarter of them for webhooks of which nothing is under way', () => {
  const deliveryLimits = createDeliveryLimits()
  const all = Array.from({ length: 30 }, (_, n) => `w${n}`)
  for (const webhookId of all) succeed(deliveryLimits, webhookId, 40)
  const begun = all.map((webhookId) => fill(deliveryLimits, webhookId, 'one').length)
  assert.deepEqual(begun, [32, 16, ...Array(16).fill(1), ...Array(12).fill(0)])
  assert.deepEqual(deliveryLimits.count().closed().open.repositories, ['one'])
  assert.equal(deliveryLimits.count().room(at('w29', 'one')), 0)
  assert.equal(deliveryLimits.count().room(at('w29', 'other')), 32)
})

test('attempts that take long leave their places to others of the repository', () => {
  const deliveryLimits = createDeliveryLimits()
  for (const webhookId of ['x', 'y', 'good']) succeed(deliveryLimits, webhookId, 40)
  const begun = [...fill(deliveryLimits, 'x', 'one'), ...fill(deliveryLimits, 'y', 'one')]
  assert.equal(begun.length, 48)
  const room = () => deliveryLimits.count().room(at('good', 'one'))
  assert.equal(room(), 16)
  for (const place of begun) deliveryLimits.slow(place)
  assert.equal(room(), 32)
  assert.equal(deliveryLimits.count().room(at('new', 'one')), 0)
})

test('busy lanes leave places for those in which nothing is under way', () => {
  const deliveryLimits = createDeliveryLimits()
  for (let n = 0; n < 40; n++) succeed(deliveryLimits, `busy${n}`, 20)
  let all = 0
  for (let n = 0; n < 40; n++) all += fill(deliveryLimits, `busy${n}`, `r${n}`).length
  assert.ok(all <= 256)
  succeed(deliveryLimits, 'late', 20)
  assert.equal(deliveryLimits.countInFlight(), all)
  assert.ok(deliveryLimits.count().room(at('busy39')) === 0)
})

test('a lane whose attempt takes long is no open one until it succeeds again', () => {
  const deliveryLimits = createDeliveryLimits()
  succeed(deliveryLimits, 'a', 40)
  const begun = fill(deliveryLimits, 'a', 'one')
  assert.equal(begun.length, 32)
  const [first = at('')] = begun
  deliveryLimits.slow(first)
  assert.equal(deliveryLimits.count().room(at('a', 'one')), 0)
  assert.deepEqual(deliveryLimits.count().closed().cautious.repositories, ['one'])
  deliveryLimits.end(first, 'success')
  assert.deepEqual(deliveryLimits.count().closed().cautious.repositories, [])
})

test('whatever happens, no more is under way than may be, and what is closed has no room', () => {
  const number = fc.integer({ min: 0, max: 30 })
  const step = fc.record({
    number,
    result: fc.constantFrom('success', 'success', 'success', 'slow', 'failure', 'none', undefined),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 400 }), (steps) => {
      const deliveryLimits = createDeliveryLimits()
      const begun: DeliveryTarget[] = []
      for (const { result, number } of steps) {
        const oldest = result && begun.shift()
        if (oldest && result) deliveryLimits.end(oldest, result)
        else begun.push(...fill(deliveryLimits, `w${number}`, `r${number % 12}`, `h${number % 7}`))
        assert.equal(deliveryLimits.countInFlight(), begun.length)
        assert.ok(begun.length <= 256)
        const count = deliveryLimits.count()
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
  const deliveryLimits = createDeliveryLimits()
  const shares = createWebhookRotation()
  const due = ['u', 'v', 'w', 'x', 'y', 'z'].map((id) => at(id, 'one'))
  const turns = Array.from({ length: 3 }, () => [
    ...shares.share(due, deliveryLimits.count()).keys(),
  ])
  // Four may be begun while nothing is known of their receivers.
  assert.deepEqual(
    turns.map((ids) => ids.join('')),
    ['uvwx', 'yzuv', 'wxuv'],
  )
})

test('room is shared out in a few pieces', () => {
  const deliveryLimits = createDeliveryLimits()
  for (const id of ['x', 'y', 'z']) succeed(deliveryLimits, id, 40)
  const due = ['x', 'y', 'z'].map((id) => at(id, 'r', 'host'))
  const [x = 0, y = 0, z = 0] = createWebhookRotation().share(due, deliveryLimits.count()).values()
  assert.equal(x + y + z, 48)
  assert.ok(Math.max(x, y, z) <= 32 && Math.min(x, y, z) >= 8, `${x} ${y} ${z}`)
})
