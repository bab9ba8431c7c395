import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Settled, toDeliveryChange } from './delivery-change.ts'

const now = 1_000_000
const options = { now, isEnabled: true, schedule: [0, 5, 60] as const, random: 0.5 }

test('a success completes the delivery, and a failure is retried until the schedule ends', () => {
  const success = toDeliveryChange(attempted({}), options)
  assert.deepEqual([success.status, success.dueAt, success.completedAt], ['success', null, now])
  const retried = toDeliveryChange(attempted({ fault: 'timed out' }), options)
  assert.deepEqual([retried.status, retried.completedAt, retried.attempts], ['pending', null, 1])
  assert.ok((retried.dueAt ?? 0) > now)
  const last = toDeliveryChange(attempted({ fault: 'timed out' }, { attempts: 2 }), options)
  assert.deepEqual([last.status, last.dueAt, last.attempts], ['failed', null, 3])
})

test('a receiver that is gone and a disabled webhook end the delivery', () => {
  const gone = attempted({ fault: 'status 410', responseStatus: 410 })
  assert.equal(toDeliveryChange(gone, options).status, 'failed')
  const failure = attempted({ fault: 'timed out' })
  assert.equal(toDeliveryChange(failure, { ...options, isEnabled: false }).status, 'failed')
})

test('a released delivery keeps its state, and a manual request of it', () => {
  const released = { ...attempted({}), isReleased: true } as unknown as Settled
  assert.deepEqual(toDeliveryChange(released, options), { leaseUntil: 0, leaseHolder: '' })
})

/** A job with the outcome of its attempt, as far as the decision reads it. */
function attempted(outcome: object, { attempts = 0 } = {}): Settled {
  const delivery = { event: 'push', attempts }
  const whole = { fault: '', responseStatus: 200, duration: 10, startedAt: now, ...outcome }
  return {
    job: { delivery, target: { url: 'http://a' }, isManual: false },
    outcome: whole,
  } as unknown as Settled
}
