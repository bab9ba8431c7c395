import assert from 'node:assert/strict'
import { test } from 'node:test'
import { similarity, toComparedLine } from './line-similarity.ts'

const between = (one: string, other: string) =>
  similarity(toComparedLine(one), toComparedLine(other))

test('lines are similar by their ends, or by their words in any order', () => {
  assert.equal(between('  same', 'same'), 1)
  assert.equal(between('', ' '), 1)
  assert.equal(between('const one = 1', 'const one = 2'), 12 / 13)
  assert.equal(between('f(left, right)', '  g(right, left)'), 9 / 10)
  assert.equal(between('x a a b', 'y a b b'), 2 / 4)
  assert.ok(between('import fs from "node:fs"', 'return total + 1') < 0.2)
})
