import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isNearby } from './reachability.ts'

const idOf = (number: number) => number.toString(16).padStart(40, '0')
const tree = `tree ${idOf(0)}\n`

/** A history in which each commit has the one before as its parent, and 3 has 20 as well; counts what is read. */
function historyOf(length: number) {
  let reads = 0
  const read = async (id: string) => {
    reads += 1
    const number = Number.parseInt(id, 16)
    if (number === 0 || number > length) return undefined
    if (number === 5) throw new Error('It is damaged.')
    const parents = [number - 1, ...(number === 3 ? [20] : [])].map(
      (one) => `parent ${idOf(one)}\n`,
    )
    const content = Buffer.from(
      `${tree}${parents.join('')}author Ada\ncommitter Ada\nparent ${idOf(99)}\n\n`,
    )
    return { id, type: 'commit', content }
  }
  return { reader: { read }, reads: () => reads }
}

test('a commit is found among the nearest ancestors of another one', async () => {
  const { reader } = historyOf(1000)
  const near = (from: number, wanted: number) => isNearby(reader, idOf(from), idOf(wanted))
  assert.equal(await near(900, 900), true)
  assert.equal(await near(900, 880), true)
  assert.equal(await near(880, 900), false)
  assert.equal(await near(900, 100), false)
  assert.equal(await near(3, 19), true)
})

test('little is read, and what cannot be read leads nowhere', async () => {
  const { reader, reads } = historyOf(1000)
  assert.equal(await isNearby(reader, idOf(900), idOf(1)), false)
  assert.ok(reads() <= 40, String(reads()))
  assert.equal(await isNearby(reader, idOf(7), idOf(4)), false)
  assert.equal(await isNearby(reader, idOf(2000), idOf(1)), false)
})

test('a line after the committer is not a parent', async () => {
  assert.equal(await isNearby(historyOf(1000).reader, idOf(200), idOf(99)), false)
})
