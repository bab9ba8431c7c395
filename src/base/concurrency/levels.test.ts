import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Levels } from './levels.ts'

test('lowest and highest agree with a linear search', () => {
  const value = fc.integer({ min: 0, max: 5 })
  const level = fc.option(fc.integer({ min: 0, max: 4 }), { nil: undefined })
  fc.assert(
    fc.property(fc.array(fc.tuple(value, level)), (steps) => {
      const levels = new Levels<number>()
      let all: { value: number; level: number }[] = []
      for (const [one, at] of steps) {
        levels.put(one, at)
        const isThere = all.some((other) => other.value === one && other.level === at)
        if (!isThere) all = all.filter((other) => other.value !== one)
        if (!isThere && at !== undefined) all.push({ value: one, level: at })
        const firstOf = (wanted: number) => all.find((other) => other.level === wanted)?.value
        const found = all.map((other) => other.level)
        assert.equal(levels.lowest(), firstOf(Math.min(...found)))
        assert.equal(levels.highest(), firstOf(Math.max(...found)))
      }
    }),
  )
})
