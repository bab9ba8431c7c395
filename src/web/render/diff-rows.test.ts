import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { hiddenBefore, numberLines, toSplitRows } from './diff-rows.ts'

const hunk = (lines: string[]) => ({ oldStart: 10, oldLines: 0, newStart: 20, newLines: 0, lines })

test('similar lines stand beside one another', () => {
  const rows = toSplitRows(
    numberLines(
      hunk([
        ' a',
        '-const one = 1',
        '-const two = 2',
        '+// new',
        '+const one = 11',
        '+const two = 22',
        ' b',
      ]),
    ),
  )
  assert.deepEqual(
    rows.map(({ left, right }) => [left?.text, right?.text]),
    [
      ['a', 'a'],
      [undefined, '// new'],
      ['const one = 1', 'const one = 11'],
      ['const two = 2', 'const two = 22'],
      ['b', 'b'],
    ],
  )
})

test('lines whose arguments moved are a pair, and those of which one became several', () => {
  const rows = toSplitRows(
    numberLines(
      hunk([
        '-  await write(path, text, options)',
        "-  log('saved', path, text.length, options.retries)",
        '+  await write(',
        '+    path,',
        '+    text,',
        '+  )',
        "+  log(options.retries, 'saved', text.length, path)",
      ]),
    ),
  )
  assert.deepEqual(
    rows.map(({ left, right }) => [left?.index, right?.index]),
    [
      [0, 2],
      [undefined, 3],
      [undefined, 4],
      [undefined, 5],
      [1, 6],
    ],
  )
})

test('a note about a missing line feed stays on its side', () => {
  const note = '\\ No newline at end of file'
  const rows = toSplitRows(numberLines(hunk(['-old', note, '+new'])))
  assert.deepEqual(
    rows.map(({ left, right }) => [left?.kind, right?.kind]),
    [
      ['deleted', 'added'],
      ['note', undefined],
    ],
  )
})

test('hidden lines are those between hunks', () => {
  const first = { ...hunk([]), newStart: 4, newLines: 7 }
  assert.equal(hiddenBefore(first, undefined), 3)
  assert.equal(hiddenBefore({ ...hunk([]), newStart: 31, newLines: 6 }, first), 20)
  // A side without lines has the number of the line before.
  assert.equal(hiddenBefore({ ...hunk([]), newStart: 30, newLines: 0 }, first), 20)
  assert.equal(hiddenBefore({ ...hunk([]), newStart: 0, newLines: 0 }, undefined), 0)
})

test('each line is in one row, in order on its side', () => {
  const line = fc.tuple(
    fc.constantFrom(' ', '+', '-', '\\'),
    fc.constantFrom('a', 'alpha beta', 'alpha gamma', '', 'x = 1', 'x = 2'),
  )
  fc.assert(
    fc.property(fc.array(line, { maxLength: 40 }), (pairs) => {
      const lines = pairs.map(([sign, text]) => sign + text)
      const numbered = numberLines(hunk(lines))
      assert.deepEqual(
        numbered.map(({ index }) => index),
        lines.map((_, index) => index),
      )
      const rows = toSplitRows(numbered)
      const left = rows.flatMap((row) => row.left ?? [])
      const right = rows.flatMap((row) => row.right ?? [])
      const isOn = (side: typeof left) => new Set(side.map(({ index }) => index))
      for (const { index, kind } of numbered) {
        const sides = [isOn(left).has(index), isOn(right).has(index)]
        const expected = { same: 2, added: 1, deleted: 1, note: 1 }[kind]
        assert.equal(sides.filter(Boolean).length, expected)
      }
      for (const side of [left, right]) {
        const indexes = side.map(({ index }) => index)
        assert.deepEqual(
          indexes,
          [...new Set(indexes)].sort((one, other) => one - other),
        )
      }
      for (const { left: one, right: other } of rows)
        if (one?.counterpart && other?.kind === 'added')
          assert.ok(one.counterpart === other || one.counterpart.index !== other.index)
    }),
  )
})
