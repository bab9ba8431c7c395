import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as settled } from 'node:timers/promises'
import fc from 'fast-check'
import { createFairLimiter } from './fair-limiter.ts'

const patient = new AbortController().signal
const long = { waitMs: 60_000 }

type Requested = {
  keys: string[]
  state: 'waiting' | 'running' | 'rejected' | 'ended'
  permit?: Disposable
  leave: AbortController
}

/** Requests permits and records their states. */
function createClients(limiter: ReturnType<typeof createFairLimiter>) {
  const all: Requested[] = []
  const served: Requested[] = []
  return {
    all,
    served,
    [Symbol.dispose]() {
      for (const { leave } of all) leave.abort()
    },
    of: (state: Requested['state']) => all.filter((one) => one.state === state),

    async ask(...keys: string[]): Promise<Requested> {
      const one: Requested = { keys, state: 'waiting', leave: new AbortController() }
      all.push(one)
      limiter.acquire(keys, one.leave.signal).then(
        (permit) => {
          Object.assign(one, { state: 'running', permit })
          served.push(one)
        },
        () => {
          one.state = 'rejected'
        },
      )
      await settled()
      return one
    },

    async end(one: Requested | undefined): Promise<void> {
      assert.ok(one?.permit)
      one.state = 'ended'
      one.permit[Symbol.dispose]()
      await settled()
    },

    /** Releases permits, the oldest first, until a request is granted; returns how many that took. */
    async endUntil(wanted: Requested): Promise<number> {
      for (let ended = 0; ; ended++) {
        if (wanted.state !== 'waiting') return ended
        await this.end(this.of('running')[0])
      }
    },
  }
}

test('requests beyond the limit wait, and start in order', async () => {
  using clients = createClients(createFairLimiter({ overall: 2, perKey: 2, waiting: 2, ...long }))
  const first = await clients.ask('a')
  await clients.ask('b')
  const third = await clients.ask('c')
  const fourth = await clients.ask('d')
  assert.equal((await clients.ask('e')).state, 'rejected')
  await clients.end(first)
  assert.deepEqual([third.state, fourth.state], ['running', 'waiting'])
})

test('no key gets every permit, so that one user cannot shut others out', async () => {
  const limiter = createFairLimiter({ overall: 8, perKey: 20, waiting: 0, waitMs: 1 })
  const keys = ['user:1', 'repository:1']
  for (let count = 0; count < 6; count++) await limiter.acquire(keys, patient)
  await assert.rejects(limiter.acquire(keys, patient), /try again/)
  await assert.rejects(limiter.acquire(['user:1', 'repository:2'], patient), /try again/)
  await limiter.acquire(['user:2', 'repository:2'], patient)
})

test('a request that times out or is aborted leaves the queue', async () => {
  const limiter = createFairLimiter({ overall: 1, perKey: 1, waiting: 5, waitMs: 20 })
  const held = await limiter.acquire(['a'], patient)
  await assert.rejects(limiter.acquire(['b'], patient), /try again/)
  const gone = new AbortController()
  const waiting = limiter.acquire(['c'], gone.signal)
  gone.abort()
  await assert.rejects(waiting, /try again/)
  assert.deepEqual(limiter.counts(), { running: 1, waiting: 0 })
  held[Symbol.dispose]()
  await assert.rejects(limiter.acquire(['c'], gone.signal), /try again/)
  await limiter.acquire(['d'], patient)
})

const bursts: Record<string, (index: number) => [string, string]> = {
  'one user with one repository': () => ['u', 'r'],
  'one user with many repositories': (index) => ['u', `r${index}`],
  'many users with one repository': (index) => [`u${index}`, 'r'],
  'two users with many repositories': (index) => [`u${index % 2}`, `r${index}`],
  'many users with two repositories': (index) => [`u${index}`, `r${index % 2}`],
}

for (const [name, keysOf] of Object.entries(bursts)) {
  test(`a burst by ${name} does not starve others`, async () => {
    using clients = createClients(
      createFairLimiter({ overall: 4, perKey: 20, waiting: 100, ...long }),
    )
    for (let index = 0; index < 100; index++) await clients.ask(...keysOf(index))
    const before = clients.of('running').length
    const other = await clients.ask('other user', 'other repository')
    const ended = await clients.endUntil(other)
    assert.equal(other.state, 'running')
    assert.ok(ended <= 3, `${ended} permits were released before, of ${before}`)
  })
}

test('a user gets the next permit of a repository that another user bursts', async () => {
  using clients = createClients(createFairLimiter({ overall: 4, perKey: 20, waiting: 50, ...long }))
  for (let index = 0; index < 60; index++) await clients.ask('bursting', 'r')
  const other = await clients.ask('other', 'r')
  assert.ok((await clients.endUntil(other)) <= 2)
  assert.equal(other.state, 'running')
})

test('the key with the fewest permits is next, however late it came', async () => {
  using clients = createClients(createFairLimiter({ overall: 4, perKey: 3, waiting: 50, ...long }))
  for (const key of ['a', 'a', 'b', 'c']) await clients.ask(key)
  const [more, fewer] = [await clients.ask('a'), await clients.ask('b')]
  await clients.end(clients.all[3])
  assert.deepEqual([more.state, fewer.state], ['waiting', 'running'])
})

test('the queue is shared: the newest request of the heaviest user is displaced', async () => {
  using clients = createClients(createFairLimiter({ overall: 1, perKey: 1, waiting: 4, ...long }))
  for (let index = 0; index < 5; index++) await clients.ask('heavy', 'r')
  const heavy = clients.all.slice(1)
  assert.equal((await clients.ask('heavy', 'r')).state, 'rejected')
  const other = await clients.ask('other', 'r')
  const states = ['waiting', 'waiting', 'waiting', 'rejected']
  assert.deepEqual(
    [...heavy, other].map(({ state }) => state),
    [...states, 'waiting'],
  )
  const another = await clients.ask('other', 's')
  assert.equal(another.state, 'waiting')
  // All have the same share now.
  assert.equal((await clients.ask('other', 'q')).state, 'rejected')
  assert.equal((await clients.ask('heavy', 'r')).state, 'rejected')
})

test('for any sequence, limits hold, no request waits without need, and order stays', async () => {
  const [overall, perKey, waiting] = [5, 3, 12]
  const key = fc.integer({ min: 0, max: 3 })
  const step = fc.oneof(
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('ask'), r: key, u: key }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('end'), r: fc.nat(), u: key }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('leave'), r: fc.nat(), u: key }) },
  )
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 80 }), async (steps) => {
      const limiter = createFairLimiter({ overall, perKey, waiting, ...long })
      using clients = createClients(limiter)
      const runningOf = (wanted: string) =>
        clients.of('running').filter(({ keys }) => keys.includes(wanted)).length
      for (const { kind, r, u } of steps) {
        const [running, queued] = [clients.of('running'), clients.of('waiting')]
        if (kind === 'ask') await clients.ask(`u${u}`, `r${r}`)
        if (kind === 'end' && running.length > 0) await clients.end(running[r % running.length])
        if (kind === 'leave') queued[r % queued.length]?.leave.abort()
        await settled()
        const waiters = clients.of('waiting')
        const counts = { running: clients.of('running').length, waiting: waiters.length }
        assert.deepEqual(limiter.counts(), counts)
        assert.ok(counts.running <= overall && counts.waiting <= waiting)
        for (const { keys } of clients.of('running'))
          for (const one of keys) assert.ok(runningOf(one) <= perKey)
        const runnable = waiters.filter(({ keys }) => keys.every((one) => runningOf(one) < perKey))
        assert.ok(counts.running === overall || runnable.length === 0)
      }
      for (const { keys } of clients.all) {
        const isSame = (other: Requested) => other.keys.join() === keys.join()
        const order = clients.all.filter((one) => isSame(one) && one.permit)
        assert.deepEqual(clients.served.filter(isSame), order)
      }
    }),
    { numRuns: 300 },
  )
})

test('every waiting request is served in the end', async () => {
  const key = fc.integer({ min: 0, max: 6 })
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(key, key), { maxLength: 60 }), async (requests) => {
      const limiter = createFairLimiter({ overall: 3, perKey: 2, waiting: 100, ...long })
      using clients = createClients(limiter)
      for (const [r, u] of requests) await clients.ask(`u${u}`, `r${r}`)
      for (let one = clients.of('running')[0]; one; one = clients.of('running')[0])
        await clients.end(one)
      assert.equal(clients.of('ended').length, requests.length)
      assert.deepEqual(limiter.counts(), { running: 0, waiting: 0 })
    }),
  )
})

test('a long queue is served quickly', async () => {
  const limiter = createFairLimiter({ overall: 4, perKey: 2, waiting: 20_000, ...long })
  let served = 0
  const all = Array.from({ length: 20_000 }, async (_, index) => {
    const { signal } = new AbortController()
    using _permit = await limiter.acquire([`u${index % 7}`, `r${index % 1000}`], signal)
    served += 1
  })
  await Promise.all(all)
  assert.equal(served, 20_000)
})
