import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type AheadBehind, countSides } from './count-sides.ts'

/** A history: the parents of each commit have smaller numbers. */
const histories = fc
  .array(fc.array(fc.nat(), { maxLength: 3 }), { minLength: 1, maxLength: 40 })
  .map((parents) => parents.map((list, at) => (at === 0 ? [] : list.map((one) => one % at))))

const cases = fc.record({
  history: histories,
  base: fc.nat(),
  tips: fc.uniqueArray(fc.nat({ max: 39 }), { minLength: 1, maxLength: 12 }),
  chunkBytes: fc.integer({ min: 1, max: 300 }),
})

const idOf = (commit: number) => commit.toString(16).padStart(40, '0')

test('commits are compared as by the sets of what they reach', async () => {
  const property = fc.asyncProperty(cases, async ({ history, base, tips, chunkBytes }) => {
    const wanted = toWanted(history, base, tips)
    const output = chunksOf(listOf(history, [wanted.base, ...wanted.tips]), chunkBytes)
    const found = await countSides(output, idOf(wanted.base), wanted.tips.map(idOf))
    assert.deepEqual(found, expectedOf(history, wanted))
  })
  await fc.assert(property)
})

test('from a list that was cut, no comparison is wrong', async () => {
  const property = fc.asyncProperty(
    cases,
    fc.nat({ max: 40 }),
    async ({ history, base, tips, chunkBytes }, kept) => {
      const wanted = toWanted(history, base, tips)
      const lines = listOf(history, [wanted.base, ...wanted.tips]).slice(0, kept)
      const output = chunksOf(lines, chunkBytes)
      const expected = expectedOf(history, wanted)
      for (const [id, counts] of await countSides(output, idOf(wanted.base), wanted.tips.map(idOf)))
        assert.deepEqual(counts, expected.get(id))
    },
  )
  await fc.assert(property)
})

test('a list is read until what follows is part of all histories', async () => {
  const history = Array.from({ length: 1000 }, (_, at) => (at === 0 ? [] : [at - 1]))
  const [base, tips] = [990, [999, 980]]
  let chunks = 0
  async function* counted() {
    for (const line of listOf(history, [base, ...tips])) {
      chunks += 1
      yield Buffer.from(line)
    }
  }
  const found = await countSides(counted(), idOf(base), tips.map(idOf))
  assert.deepEqual(
    [...found.values()],
    [
      { ahead: 9, behind: 0 },
      { ahead: 0, behind: 10 },
    ],
  )
  assert.equal(chunks, 19)
})

type Wanted = { base: number; tips: number[] }

function toWanted(history: number[][], base: number, tips: number[]): Wanted {
  const within = (commit: number) => commit % history.length
  const others = new Set(tips.map(within))
  others.delete(within(base))
  return { base: within(base), tips: [...others] }
}

function reachedFrom(history: number[][], tips: number[]): Set<number> {
  const reached = new Set(tips)
  for (const commit of reached) for (const parent of history[commit] ?? []) reached.add(parent)
  return reached
}

/** As git lists them: each after all that reach it. */
function listOf(history: number[][], tips: number[]): string[] {
  const commits = [...reachedFrom(history, tips)].sort((one, other) => other - one)
  return commits.map((commit) => `${[commit, ...(history[commit] ?? [])].map(idOf).join(' ')}\n`)
}

function expectedOf(history: number[][], { base, tips }: Wanted): Map<string, AheadBehind> {
  const ofBase = reachedFrom(history, [base])
  const compared = tips.map((tip): [string, AheadBehind] => {
    const own = reachedFrom(history, [tip])
    return [idOf(tip), { ahead: own.difference(ofBase).size, behind: ofBase.difference(own).size }]
  })
  return new Map(compared)
}

async function* chunksOf(lines: string[], bytes: number): AsyncGenerator<Buffer> {
  const all = Buffer.from(lines.join(''))
  for (let at = 0; at < all.length; at += bytes) yield all.subarray(at, at + bytes)
}
