import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { changedWords } from './changed-words.ts'

function marked(before: string, after: string): [string, string] | undefined {
  const words = changedWords(before, after)
  return words && [mark(before, words.before), mark(after, words.after)]
}

function mark(text: string, ranges: readonly [number, number][]): string {
  return ranges
    .toReversed()
    .reduce(
      (marked, [start, end]) =>
        `${marked.slice(0, start)}[${marked.slice(start, end)}]${marked.slice(end)}`,
      text,
    )
}

test('marks whole words, each change on its own', () => {
  assert.deepEqual(marked('const count = 1', 'const total = 1'), [
    'const [count] = 1',
    'const [total] = 1',
  ])
  assert.deepEqual(marked('f(a, b, c)', 'f(x, b, y)'), ['f([a], b, [c])', 'f([x], b, [y])'])
  assert.deepEqual(marked('return value', 'return value + 1'), [
    'return value',
    'return value[ + 1]',
  ])
  assert.deepEqual(marked('naïve café', 'naïve cafés'), ['naïve [café]', 'naïve [cafés]'])
})

test('marks nothing in lines that have little in common', () => {
  assert.equal(marked('import fs from "node:fs"', '}'), undefined)
  assert.equal(marked('same', 'same'), undefined)
})

test('what is not marked is the same on both sides', () => {
  const line = fc
    .array(fc.constantFrom('a', 'b', 'foo', ' ', '  ', '(', '😀', '\t', 'é'), { maxLength: 30 })
    .map((words) => words.join(''))
  fc.assert(
    fc.property(line, line, (before, after) => {
      const words = changedWords(before, after)
      if (!words) return
      const rest = (text: string, ranges: readonly [number, number][]) =>
        ranges
          .toReversed()
          .reduce((left, [start, end]) => left.slice(0, start) + left.slice(end), text)
          .replace(/\s+/g, '')
      assert.equal(rest(before, words.before), rest(after, words.after))
      for (const [ranges, length] of [
        [words.before, before.length],
        [words.after, after.length],
      ] as const) {
        const bounds = ranges.flat()
        assert.deepEqual(
          bounds,
          [...bounds].sort((one, other) => one - other),
        )
        assert.ok((bounds.at(-1) ?? 0) <= length)
      }
    }),
  )
})
