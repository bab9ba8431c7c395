import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as settled } from 'node:timers/promises'
import fc from 'fast-check'
import { createFairLimiter } from './fair-limiter.ts'

const patient = new AbortController().signal
const long = { waitMs: 60_000 }

type Asked = {
  keys: string[]
  state: 'waiting' | 'running' | 'refused' | 'ended'
  turn?: Disposable
  leave: AbortController
}

/** Asks for turns and notes what comes of it. */
function createCrowd(turns: ReturnType<typeof createFairLimiter>) {
  const all: Asked[] = []
  const served: Asked[] = []
  return {
    all,
    served,
    [Symbol.dispose]() {
      for (const { leave } of all) leave.abort()
    },
    of: (state: Asked['state']) => all.filter((one) => one.state === state),

    async ask(...keys: string[]): Promise<Asked> {
      const one: Asked = { keys, state: 'waiting', leave: new AbortController() }
      all.push(one)
      turns.acquire(keys, one.leave.signal).then(
        (turn) => {
          Object.assign(one, { state: 'running', turn })
          served.push(one)
        },
        () => {
          one.state = 'refused'
        },
      )
      await settled()
      return one
    },

    async end(one: Asked | undefined): Promise<void> {
      assert.ok(one?.turn)
      one.state = 'ended'
      one.turn[Symbol.dispose]()
      await settled()
    },

    /** Ends turns, the oldest first, until somebody has one; how many that took. */
    async endUntil(wanted: Asked): Promise<number> {
      for (let ended = 0; ; ended++) {
        if (wanted.state !== 'waiting') return ended
        await this.end(this.of('running')[0])
      }
    },
  }
}

test('what is too much waits, and starts in order when there is room', async () => {
  using crowd = createCrowd(createFairLimiter({ overall: 2, perKey: 2, waiting: 2, ...long }))
  const first = await crowd.ask('a')
  await crowd.ask('b')
  const third = await crowd.ask('c')
  const fourth = await crowd.ask('d')
  assert.equal((await crowd.ask('e')).state, 'refused')
  await crowd.end(first)
  assert.deepEqual([third.state, fourth.state], ['running', 'waiting'])
})

test('no key gets every turn, so that one user cannot shut the others out', async () => {
  const turns = createFairLimiter({ overall: 8, perKey: 20, waiting: 0, waitMs: 1 })
  const keys = ['user:1', 'repository:1']
  for (let turn = 0; turn < 6; turn++) await turns.acquire(keys, patient)
  await assert.rejects(turns.acquire(keys, patient), /try again/)
  await assert.rejects(turns.acquire(['user:1', 'repository:2'], patient), /try again/)
  await turns.acquire(['user:2', 'repository:2'], patient)
})

test('who waits too long, or goes away, leaves the queue', async () => {
  const turns = createFairLimiter({ overall: 1, perKey: 1, waiting: 5, waitMs: 20 })
  const held = await turns.acquire(['a'], patient)
  await assert.rejects(turns.acquire(['b'], patient), /try again/)
  const gone = new AbortController()
  const waiting = turns.acquire(['c'], gone.signal)
  gone.abort()
  await assert.rejects(waiting, /try again/)
  assert.deepEqual(turns.counts(), { running: 1, waiting: 0 })
  held[Symbol.dispose]()
  await turns.acquire(['d'], patient)
})

const storms: Record<string, (index: number) => [string, string]> = {
  'one user with one repository': () => ['u', 'r'],
  'one user with many repositories': (index) => ['u', `r${index}`],
  'many users with one repository': (index) => [`u${index}`, 'r'],
  'two users with many repositories': (index) => [`u${index % 2}`, `r${index}`],
  'many users with two repositories': (index) => [`u${index}`, `r${index % 2}`],
}

for (const [name, keysOf] of Object.entries(storms)) {
  test(`a storm by ${name} does not keep others waiting`, async () => {
    using crowd = createCrowd(createFairLimiter({ overall: 4, perKey: 20, waiting: 100, ...long }))
    for (let index = 0; index < 100; index++) await crowd.ask(...keysOf(index))
    const before = crowd.of('running').length
    const other = await crowd.ask('other user', 'other repository')
    const ended = await crowd.endUntil(other)
    assert.equal(other.state, 'running')
    assert.ok(ended <= 3, `${ended} turns ended before, of ${before}`)
  })
}

test('a user who wants the repository that another one storms has the next of its turns', async () => {
  using crowd = createCrowd(createFairLimiter({ overall: 4, perKey: 20, waiting: 50, ...long }))
  for (let index = 0; index < 60; index++) await crowd.ask('storming', 'r')
  const other = await crowd.ask('other', 'r')
  assert.ok((await crowd.endUntil(other)) <= 2)
  assert.equal(other.state, 'running')
})

test('who has fewer turns than others has the next one, however late it came', async () => {
  using crowd = createCrowd(createFairLimiter({ overall: 4, perKey: 3, waiting: 50, ...long }))
  for (const key of ['a', 'a', 'b', 'c']) await crowd.ask(key)
  const [more, fewer] = [await crowd.ask('a'), await crowd.ask('b')]
  await crowd.end(crowd.all[3])
  assert.deepEqual([more.state, fewer.state], ['waiting', 'running'])
})

test('the waiting room is shared: the last to come of the greediest gives way to others', async () => {
  using crowd = createCrowd(createFairLimiter({ overall: 1, perKey: 1, waiting: 4, ...long }))
  for (let index = 0; index < 5; index++) await crowd.ask('greedy', 'r')
  const greedy = crowd.all.slice(1)
  assert.equal((await crowd.ask('greedy', 'r')).state, 'refused')
  const other = await crowd.ask('other', 'r')
  const states = ['waiting', 'waiting', 'waiting', 'refused']
  assert.deepEqual(
    [...greedy, other].map(({ state }) => state),
    [...states, 'waiting'],
  )
  const another = await crowd.ask('other', 's')
  assert.equal(another.state, 'waiting')
  // All have the same share now.
  assert.equal((await crowd.ask('other', 'q')).state, 'refused')
  assert.equal((await crowd.ask('greedy', 'r')).state, 'refused')
})

test('whatever is asked, ended and given up: limits hold, nobody waits without need, and order stays', async () => {
  const [overall, perKey, waiting] = [5, 3, 12]
  const key = fc.integer({ min: 0, max: 3 })
  const step = fc.oneof(
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('ask'), r: key, u: key }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('end'), r: fc.nat(), u: key }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('leave'), r: fc.nat(), u: key }) },
  )
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 80 }), async (steps) => {
      const turns = createFairLimiter({ overall, perKey, waiting, ...long })
      using crowd = createCrowd(turns)
      const runningOf = (wanted: string) =>
        crowd.of('running').filter(({ keys }) => keys.includes(wanted)).length
      for (const { kind, r, u } of steps) {
        const [running, queued] = [crowd.of('running'), crowd.of('waiting')]
        if (kind === 'ask') await crowd.ask(`u${u}`, `r${r}`)
        if (kind === 'end' && running.length > 0) await crowd.end(running[r % running.length])
        if (kind === 'leave') queued[r % queued.length]?.leave.abort()
        await settled()
        const waiters = crowd.of('waiting')
        const counts = { running: crowd.of('running').length, waiting: waiters.length }
        assert.deepEqual(turns.counts(), counts)
        assert.ok(counts.running <= overall && counts.waiting <= waiting)
        for (const { keys } of crowd.of('running'))
          for (const one of keys) assert.ok(runningOf(one) <= perKey)
        const needless = waiters.filter(({ keys }) => keys.every((one) => runningOf(one) < perKey))
        assert.ok(counts.running === overall || needless.length === 0)
      }
      for (const { keys } of crowd.all) {
        const isSame = (other: Asked) => other.keys.join() === keys.join()
        const order = crowd.all.filter((one) => isSame(one) && one.turn)
        assert.deepEqual(crowd.served.filter(isSame), order)
      }
    }),
    { numRuns: 300 },
  )
})

test('everybody who waits has a turn in the end', async () => {
  const key = fc.integer({ min: 0, max: 6 })
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(key, key), { maxLength: 60 }), async (asked) => {
      const turns = createFairLimiter({ overall: 3, perKey: 2, waiting: 100, ...long })
      using crowd = createCrowd(turns)
      for (const [r, u] of asked) await crowd.ask(`u${u}`, `r${r}`)
      for (let one = crowd.of('running')[0]; one; one = crowd.of('running')[0]) await crowd.end(one)
      assert.equal(crowd.of('ended').length, asked.length)
      assert.deepEqual(turns.counts(), { running: 0, waiting: 0 })
    }),
  )
})

test('however many wait, each has a turn soon', async () => {
  const turns = createFairLimiter({ overall: 4, perKey: 2, waiting: 20_000, ...long })
  let served = 0
  const all = Array.from({ length: 20_000 }, async (_, index) => {
    const { signal } = new AbortController()
    using _turn = await turns.acquire([`u${index % 7}`, `r${index % 1000}`], signal)
    served += 1
  })
  await Promise.all(all)
  assert.equal(served, 20_000)
})
