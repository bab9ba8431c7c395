import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { createHealthCheck } from './health.ts'

/** A part whose probes stay open until they are settled, at a time that is set. */
function createPart() {
  const probes: PromiseWithResolvers<void>[] = []
  let time = 1000
  const probe = () => {
    const opened = Promise.withResolvers<void>()
    probes.push(opened)
    return opened.promise
  }
  const code = 'database_unavailable'
  const check = createHealthCheck([{ code, detail: 'It is down.', probe }], () => time)
  return {
    probes,
    pass: (ms: number) => {
      time += ms
    },
    /** How a request ends; `waiting` while it has not. */
    request: async () => {
      let state = 'waiting'
      const outcome = check().then(
        () => 'healthy',
        (error) => error.code,
      )
      void outcome.then((ended) => {
        state = ended
      })
      await setImmediate()
      return { outcome, state }
    },
  }
}

test('a success counts for half a second, and the next probe starts before that is over', async () => {
  const { probes, pass, request } = createPart()
  const first = await request()
  assert.equal(first.state, 'waiting')
  probes[0]?.resolve()
  assert.equal(await first.outcome, 'healthy')
  pass(249)
  assert.equal((await request()).state, 'healthy')
  assert.equal(probes.length, 1)
  pass(2)
  for (let round = 0; round < 3; round++) assert.equal((await request()).state, 'healthy')
  assert.equal(probes.length, 2)
  probes[1]?.resolve()
  pass(240)
  assert.equal((await request()).state, 'healthy')
  assert.equal(probes.length, 2)
})

test('a part that stops responding is found unavailable half a second later', async () => {
  const { probes, pass, request } = createPart()
  const first = request()
  probes[0]?.resolve()
  assert.equal(await (await first).outcome, 'healthy')
  pass(300)
  assert.equal((await request()).state, 'healthy')
  probes[1]?.reject(new Error('down'))
  await setImmediate()
  pass(199)
  assert.equal((await request()).state, 'healthy')
  pass(2)
  const last = await request()
  assert.equal(last.state, 'waiting')
  probes[2]?.reject(new Error('down'))
  assert.equal(await last.outcome, 'database_unavailable')
})

test('requests share one probe of a part for as long as its result counts, also while it fails', async () => {
  let [time, probes] = [1000, 0]
  let isAway = false
  const check = createHealthCheck(
    [
      {
        code: 'storage_unavailable',
        detail: 'It is away.',
        freshMs: 5000,
        async probe() {
          probes += 1
          if (isAway) throw new Error('away')
        },
      },
    ],
    () => time,
  )
  const requestAll = () => Promise.allSettled(Array.from({ length: 100 }, check))
  for (const at of [0, 1000, 2000]) {
    time = 1000 + at
    await requestAll()
    assert.equal(probes, 1)
  }
  isAway = true
  time = 6000
  for (const { status } of await requestAll()) assert.equal(status, 'rejected')
  await requestAll()
  assert.equal(probes, 2)
  time += 500
  await requestAll()
  assert.equal(probes, 3)
})
