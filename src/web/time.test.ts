import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toDuration } from './time.ts'

test('durations are given in at most two units', () => {
  const expected: [milliseconds: number, text: string][] = [
    [-5, '0 s'],
    [0, '0 s'],
    [20, '0.1 s'],
    [440, '0.4 s'],
    [990, '1 s'],
    [38_400, '38 s'],
    [59_700, '1 min'],
    [97_000, '1 min 37 s'],
    [3_600_000, '1 h'],
    [7_500_000, '2 h 5 min'],
    [273_600_000, '3 d 4 h'],
  ]
  for (const [milliseconds, text] of expected) assert.equal(toDuration(milliseconds), text)
})
