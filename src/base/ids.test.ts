import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { createIds } from './ids.ts'

// Not those of the process, in which other files of tests run: times to come would stay in their ids.
const { newId, newIdAfter } = createIds()

test('ids sort in the order of their creation', () => {
  const ids = Array.from({ length: 5000 }, () => newId())
  assert.deepEqual([...ids].sort(), ids)
  assert.equal(new Set(ids).size, ids.length)
})

test('ids still sort when the clock goes back', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1e12, max: 2e12 }), { minLength: 2 }), (times) => {
      const ids = times.map((time) => newId(time))
      assert.deepEqual([...ids].sort(), ids)
      for (const id of ids) assert.match(id, /^[0-9a-hjkmnp-tv-z]{26}$/)
    }),
  )
})

test('an id after another one sorts after it, wherever the clock of that one was', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1e12, max: 2e12 }), (now) => {
      const ahead = `7${newId(now).slice(1, -1)}z`
      const next = newIdAfter(ahead, now)
      assert.ok(next > ahead)
      assert.match(next, /^[0-9a-hjkmnp-tv-z]{26}$/)
      assert.ok(newIdAfter('', now) > '')
    }),
  )
})

test('ids after one of another machine are neither its next ones nor equal', () => {
  const previous = '7zzzzzzzzy000000000000000z'
  const ids = Array.from({ length: 100 }, () => newIdAfter(previous, 1))
  assert.equal(new Set(ids.map((id) => id.slice(10, 18))).size, ids.length)
  for (const id of ids) assert.match(id, /^7zzzzzzzzz/)
})
