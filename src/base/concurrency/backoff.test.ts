import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBackoff } from './backoff.ts'

test('pauses double up to the limit, with jitter of a half, and start again after a success', () => {
  const backoff = createBackoff({ firstMs: 100, maxMs: 300 })
  for (const fullMs of [100, 200, 300, 300]) {
    const pauseMs = backoff.nextMs()
    assert.ok(pauseMs >= fullMs / 2 && pauseMs <= fullMs, String(pauseMs))
  }
  backoff.reset()
  assert.ok(backoff.nextMs() <= 100)
})

test('a pause lasts at least the given time, and ends with the signal', async () => {
  const backoff = createBackoff({ firstMs: 1, maxMs: 1 })
  const startedAt = performance.now()
  await backoff.pause(new AbortController().signal, 30)
  assert.ok(performance.now() - startedAt >= 29)
  const stopping = new AbortController()
  const paused = backoff.pause(stopping.signal, 60_000)
  stopping.abort(new Error('stopping'))
  await assert.rejects(paused, /stopping/)
})
