import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { createWebhookRotation } from './delivering/webhook-rotation.ts'
import {
  createDeliveryLimits,
  type DeliveryLimits,
  type DeliveryTarget,
} from './delivery-limits.ts'

const at = (webhookId: string, scopeId = 'r', receiver = webhookId): DeliveryTarget => ({
  webhookId,
  receiver,
  scopeId,
})

/** Completes successful attempts of a webhook, one after the other. */
function succeed(deliveryLimits: DeliveryLimits, webhookId: string, times: number): void {
  for (let n = 0; n < times; n++) {
    const target = at(webhookId)
    deliveryLimits.start(target)
    deliveryLimits.end(target, 'success')
  }
}

/** Starts attempts up to the capacity, and returns them. */
function fill(deliveryLimits: DeliveryLimits, ...of: Parameters<typeof at>): DeliveryTarget[] {
  const begun: DeliveryTarget[] = []
  for (;;) {
    const target = at(...of)
    if (deliveryLimits.count().capacity(target) === 0) return begun
    deliveryLimits.start(target)
    begun.push(target)
  }
}

test('a window begins at 1, grows by 1 with each success up to 32, and falls to 1 with a failure', () => {
  const deliveryLimits = createDeliveryLimits()
  const capacity = () => deliveryLimits.count().capacity(at('a'))
  assert.equal(capacity(), 1)
  succeed(deliveryLimits, 'a', 1)
  assert.equal(capacity(), 2)
  succeed(deliveryLimits, 'a', 40)
  assert.equal(capacity(), 32)
  const target = at('a')
  deliveryLimits.start(target)
  assert.equal(capacity(), 31)
  deliveryLimits.end(target, 'failure')
  assert.equal(capacity(), 1)
})

test('an attempt that says nothing about its receiver leaves the window unchanged', () => {
  const deliveryLimits = createDeliveryLimits()
  succeed(deliveryLimits, 'a', 3)
  const target = at('a')
  deliveryLimits.start(target)
  deliveryLimits.end(target, 'none')
  deliveryLimits.end(target, 'failure')
  assert.equal(deliveryLimits.count().capacity(at('a')), 4)
})

test('webhooks that do not respond share half of the capacity, and a repository has 4 of it', () => {
  const deliveryLimits = createDeliveryLimits()
  succeed(deliveryLimits, 'good', 40)
  const begun: DeliveryTarget[] = []
  for (let n = 0; n < 200; n++) begun.push(...fill(deliveryLimits, `dead${n}`, `r${n % 50}`))
  assert.equal(begun.length, 128)
  const ofOne = begun.filter(({ scopeId }) => scopeId === 'r0')
  assert.ok(ofOne.length <= 4, String(ofOne.length))
  assert.equal(deliveryLimits.count().capacity(at('good')), 32)
  assert.equal(deliveryLimits.count().exhausted().probing.isFull, true)
  assert.deepEqual(deliveryLimits.count().exhausted().healthy.webhooks, ['good'])
})

test('a failing URL takes nothing from another one of the same host', () => {
  const deliveryLimits = createDeliveryLimits()
  succeed(deliveryLimits, 'good', 40)
  const failed = at('bad', 'other', 'good')
  deliveryLimits.start(failed)
  deliveryLimits.end(failed, 'failure')
  assert.equal(deliveryLimits.count().capacity(at('bad', 'other', 'good')), 1)
  assert.equal(deliveryLimits.count().capacity(at('good')), 32)
  const begun: DeliveryTarget[] = []
  for (let n = 0; n < 100; n++) begun.push(...fill(deliveryLimits, `dead${n}`, `r${n}`, 'good'))
  assert.equal(begun.length, 32)
  assert.deepEqual(deliveryLimits.count().exhausted().probing.receivers, ['good'])
  assert.equal(deliveryLimits.count().capacity(at('good')), 32)
})

test('a repository has 64 deliveries at once, a quarter reserved for webhooks with nothing in flight', () => {
  const deliveryLimits = createDeliveryLimits()
  const all = Array.from({ length: 30 }, (_, n) => `w${n}`)
  for (const webhookId of all) succeed(deliveryLimits, webhookId, 40)
  const begun = all.map((webhookId) => fill(deliveryLimits, webhookId, 'one').length)
  assert.deepEqual(begun, [32, 16, ...Array(16).fill(1), ...Array(12).fill(0)])
  assert.deepEqual(deliveryLimits.count().exhausted().healthy.scopes, ['one'])
  assert.equal(deliveryLimits.count().capacity(at('w29', 'one')), 0)
  assert.equal(deliveryLimits.count().capacity(at('w29', 'other')), 32)
})

test('slow attempts leave their capacity to other webhooks of the repository', () => {
  const deliveryLimits = createDeliveryLimits()
  for (const webhookId of ['x', 'y', 'good']) succeed(deliveryLimits, webhookId, 40)
  const begun = [...fill(deliveryLimits, 'x', 'one'), ...fill(deliveryLimits, 'y', 'one')]
  assert.equal(begun.length, 48)
  const capacity = () => deliveryLimits.count().capacity(at('good', 'one'))
  assert.equal(capacity(), 16)
  for (const target of begun) deliveryLimits.slow(target)
  assert.equal(capacity(), 32)
  assert.equal(deliveryLimits.count().capacity(at('new', 'one')), 0)
})

test('busy webhooks leave capacity for those with nothing in flight', () => {
  const deliveryLimits = createDeliveryLimits()
  for (let n = 0; n < 40; n++) succeed(deliveryLimits, `busy${n}`, 20)
  let all = 0
  for (let n = 0; n < 40; n++) all += fill(deliveryLimits, `busy${n}`, `r${n}`).length
  assert.ok(all <= 256)
  succeed(deliveryLimits, 'late', 20)
  assert.equal(deliveryLimits.countInFlight(), all)
  assert.ok(deliveryLimits.count().capacity(at('busy39')) === 0)
})

test('a webhook whose attempt is slow is not healthy until it succeeds again', () => {
  const deliveryLimits = createDeliveryLimits()
  succeed(deliveryLimits, 'a', 40)
  const begun = fill(deliveryLimits, 'a', 'one')
  assert.equal(begun.length, 32)
  const [first = at('')] = begun
  deliveryLimits.slow(first)
  assert.equal(deliveryLimits.count().capacity(at('a', 'one')), 0)
  assert.deepEqual(deliveryLimits.count().exhausted().probing.scopes, ['one'])
  deliveryLimits.end(first, 'success')
  assert.deepEqual(deliveryLimits.count().exhausted().probing.scopes, [])
})

test('limits are never exceeded, and exhausted webhooks have no capacity', () => {
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
        const exhausted = count.exhausted()
        for (const target of begun) {
          const { webhookId, receiver, scopeId } = target
          const isHealthy = exhausted.healthy.webhooks.includes(webhookId)
          const { receivers, scopes } = isHealthy ? exhausted.healthy : exhausted.probing
          const isExhausted =
            exhausted.webhooks.includes(webhookId) ||
            (!isHealthy && exhausted.probing.isFull) ||
            receivers.includes(receiver) ||
            scopes.includes(scopeId)
          if (isExhausted) assert.equal(count.capacity(target), 0)
        }
      }
    }),
    { numRuns: 100 },
  )
})

test('webhooks of one repository take turns, longest wait first', () => {
  const deliveryLimits = createDeliveryLimits()
  const shares = createWebhookRotation()
  const due = ['u', 'v', 'w', 'x', 'y', 'z'].map((id) => at(id, 'one'))
  const turns = Array.from({ length: 3 }, () => [
    ...shares.share(due, deliveryLimits.count()).keys(),
  ])
  // Four may start while nothing is known of their receivers.
  assert.deepEqual(
    turns.map((ids) => ids.join('')),
    ['uvwx', 'yzuv', 'wxuv'],
  )
})

test('capacity is shared in a few pieces', () => {
  const deliveryLimits = createDeliveryLimits()
  for (const id of ['x', 'y', 'z']) succeed(deliveryLimits, id, 40)
  const due = ['x', 'y', 'z'].map((id) => at(id, 'r', 'host'))
  const [x = 0, y = 0, z = 0] = createWebhookRotation().share(due, deliveryLimits.count()).values()
  assert.equal(x + y + z, 48)
  assert.ok(Math.max(x, y, z) <= 32 && Math.min(x, y, z) >= 8, `${x} ${y} ${z}`)
})
