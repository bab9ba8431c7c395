import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLog } from '#base/log.ts'
import { createSharedClock } from './shared-clock.ts'

const log = createLog({ level: 'silent', output: process.stderr })
const minuteMs = 60_000

test('a clock that is off follows the shared one, and a small difference does not move it', async () => {
  const clock = createSharedClock(log)
  const isAhead = (byMs: number) => Math.abs(clock.now() - Date.now() - byMs) < 500
  assert.ok(isAhead(0))
  await clock.set(async () => Date.now() + 400)
  assert.equal(clock.now() - Date.now() < 300, true, 'below the tolerance')
  await clock.set(async () => Date.now() + 10 * minuteMs)
  assert.ok(isAhead(10 * minuteMs))
  await clock.set(async () => Date.now() - 10 * minuteMs)
  assert.ok(isAhead(-10 * minuteMs))
  await assert.rejects(
    clock.set(async () => {
      throw new Error('away')
    }),
  )
  assert.ok(isAhead(-10 * minuteMs))
})
