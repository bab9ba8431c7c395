import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { newId } from './ids.ts'

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
