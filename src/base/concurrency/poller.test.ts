import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as settled } from 'node:timers/promises'
import { createPoller } from './poller.ts'

/** Work that counts its runs, each of which lasts until `end` is called. */
function createWork() {
  let over = Promise.withResolvers<void>()
  const work = {
    runs: 0,
    next: undefined as number | undefined,
    async run() {
      work.runs += 1
      await over.promise
      return work.next
    },
    async end() {
      over.resolve()
      over = Promise.withResolvers()
      await settled()
    },
  }
  return work
}

const onError = assert.ifError

test('it runs at the interval, from the end of a run to the start of the next', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const work = createWork()
  await using _poller = createPoller({ intervalMs: 100, run: work.run, onError })
  t.mock.timers.tick(99)
  assert.equal(work.runs, 0)
  t.mock.timers.tick(1)
  assert.equal(work.runs, 1)
  t.mock.timers.tick(1000)
  assert.equal(work.runs, 1)
  await work.end()
  t.mock.timers.tick(100)
  assert.equal(work.runs, 2)
  await work.end()
})

test('it runs when woken, and once more when woken during a run', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const work = createWork()
  await using poller = createPoller({ intervalMs: undefined, run: work.run, onError })
  poller.wake()
  poller.wake()
  poller.wake()
  assert.equal(work.runs, 1)
  await work.end()
  assert.equal(work.runs, 2)
  await work.end()
  t.mock.timers.tick(60_000)
  assert.equal(work.runs, 2)
})

test('a run may choose the time of the next', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const work = createWork()
  await using poller = createPoller({ intervalMs: 1000, run: work.run, onError })
  work.next = 5
  poller.wake()
  await work.end()
  t.mock.timers.tick(5)
  assert.equal(work.runs, 2)
  await work.end()
})

test('a failure is reported, and the next run comes after the interval', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const errors: unknown[] = []
  let runs = 0
  const run = async () => {
    runs += 1
    throw new Error('unreachable')
  }
  const report = (error: unknown) => void errors.push(error)
  await using poller = createPoller({ intervalMs: 100, run, onError: report })
  poller.wake()
  await settled()
  assert.match(String(errors), /unreachable/)
  t.mock.timers.tick(100)
  assert.equal(runs, 2)
})

test('disposal aborts the current run, waits for it, and starts no other', async () => {
  const work = createWork()
  let signal: AbortSignal | undefined
  const poller = createPoller({
    intervalMs: 1,
    run: (given) => {
      signal = given
      return work.run()
    },
    onError,
  })
  poller.wake()
  poller.wake()
  let isDisposed = false
  const disposed = poller[Symbol.asyncDispose]().then(() => {
    isDisposed = true
  })
  await settled()
  assert.deepEqual([signal?.aborted, isDisposed], [true, false])
  await work.end()
  await disposed
  poller.wake()
  assert.equal(work.runs, 1)
})
