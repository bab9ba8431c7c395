import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRandom } from '../../../test/support/random.ts'
import { chooseLanding, chooseProbes, judgeChanges, maxSize, type Trial } from './trial.ts'

type Change = {
  number: number
  standing: 'new' | 'questioned' | 'suspect' | 'proven'
  failures: number
  urgent: number
  kind: 'good' | 'broken' | 'flaky'
}

/** Lands changes as the queue does. All runs take one unit of time, and those of a flaky change fail at first. */
function landAll(changes: Change[], { areAlone = false } = {}) {
  let queue = changes
  let trials: (Trial & { tried: Change[] })[] = []
  let [size, time] = [1, 0]
  const landed: Change[] = []
  const out: Change[] = []
  const seen = new Set<Change>()
  const start = (kind: Trial['kind'], tried: Change[]) => {
    const by = { id: '', username: 'ada' }
    const rows = tried.map(({ number }) => ({ number, version: 1, by, queuedAt: 0 }))
    const id = String(Math.random())
    const trial = { id, kind, base: '', commit: '', changes: rows, runIds: [], startedAt: 0 }
    trials.push({ ...trial, tried })
  }
  while (queue.length > 0) {
    const landing = chooseLanding(queue, trials, areAlone ? 1 : size)
    if (landing) start('land', landing)
    if (!areAlone || trials.length === 0)
      for (const tried of chooseProbes(queue, trials)) start('probe', tried)
    assert.ok(trials.length > 0, 'The queue has stopped.')
    assert.ok(trials.length <= 9)
    time++
    const ended = trials
    trials = []
    for (const { kind, tried } of ended) {
      const isGood = tried.every(
        (one) => one.kind === 'good' || (one.kind === 'flaky' && seen.has(one)),
      )
      if (tried.length === 1) for (const one of tried) seen.add(one)
      if (kind === 'land' && isGood) {
        landed.push(...tried)
        queue = queue.filter((one) => !tried.includes(one))
        size = Math.min(size * 2, maxSize)
        continue
      }
      const { verdicts, isDivided } = judgeChanges({ kind }, tried, isGood)
      if (isDivided) size = Math.max(1, Math.floor(tried.length / 2))
      for (const [one, verdict] of verdicts) {
        if (verdict !== 'out') Object.assign(one, verdict)
        else {
          out.push(one)
          queue = queue.filter((other) => other !== one)
        }
      }
    }
  }
  return { landed, out, time }
}

function makeChanges(seed: number): Change[] {
  const random = createRandom(seed)
  return Array.from({ length: 400 }, (_, number) => ({
    ...{ number, standing: 'new' as const, failures: 0, urgent: 0 },
    kind: random.chance(0.05) ? 'broken' : random.chance(0.05) ? 'flaky' : 'good',
  }))
}

test('all changes but broken ones land, in an eighth of the time of one by one, with 5 % broken and 5 % flaky', () => {
  let [together, alone] = [0, 0]
  for (let seed = 1; seed <= 10; seed++) {
    const { landed, out, time } = landAll(makeChanges(seed))
    const kinds = new Set(landed.map(({ kind }) => kind))
    assert.deepEqual(kinds, new Set(['good', 'flaky']))
    assert.ok(out.every(({ kind }) => kind === 'broken'))
    assert.equal(landed.length + out.length, 400)
    together += time
    alone += landAll(makeChanges(seed), { areAlone: true }).time
  }
  assert.ok(alone > 8 * together, `${alone} and ${together}`)
})

test('changes that succeed alone and fail together are divided until one is to blame', () => {
  const entries = [1, 2, 3, 4].map((number) => ({
    ...{ number, standing: 'proven' as const, failures: 0, urgent: 0 },
  }))
  assert.equal(judgeChanges({ kind: 'land' }, entries, false).isDivided, true)
  const first = entries.slice(0, 1)
  const { verdicts, isDivided } = judgeChanges({ kind: 'land' }, first, false)
  assert.equal(isDivided, false)
  assert.deepEqual([...verdicts.values()], [{ number: 1, standing: 'suspect', failures: 1 }])
  const again = first.map((one) => ({ ...one, failures: 1, standing: 'suspect' as const }))
  assert.deepEqual([...judgeChanges({ kind: 'probe' }, again, false).verdicts.values()], ['out'])
})

test('urgent changes are tried before the others, and without them', () => {
  const entries = [1, 2, 3].map((number) => ({
    ...{ number, standing: 'new' as const, failures: 0, urgent: number === 3 ? 1 : 0 },
  }))
  assert.deepEqual(
    chooseLanding(entries, [], 8)?.map(({ number }) => number),
    [3],
  )
  const failed = entries.map((one) => ({ ...one, standing: 'questioned' as const }))
  assert.equal(chooseLanding(failed, [], 8), undefined)
  assert.equal(chooseProbes(failed, []).length, 3)
})

test('new changes are probed while one is in trouble, and otherwise wait for their turn', () => {
  const entries = [1, 2, 3, 4, 5, 6, 7].map((number) => ({
    ...{ number, failures: 0, urgent: number === 7 ? 1 : 0 },
    standing: number === 1 ? ('questioned' as const) : ('new' as const),
  }))
  const of = (groups: { number: number }[][]) =>
    groups.map((one) => one.map(({ number }) => number))
  const landing = { kind: 'land', changes: [{ number: 2 }] } as Trial
  assert.deepEqual(of(chooseProbes(entries, [landing])), [[1], [3, 4, 5, 6]])
  assert.deepEqual(of(chooseProbes(entries, [])), [[1]])
  assert.deepEqual(of(chooseProbes(entries.slice(1), [landing])), [])
})
