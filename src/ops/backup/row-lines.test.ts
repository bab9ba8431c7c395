import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readRowLines, toRowLine } from './row-lines.ts'

test('a row survives a round trip through its line', () => {
  const rows = [
    {
      id: 'a',
      text: 'two\nlines, "quoted", \u2028 \ud83d\ude00',
      number: -1.5,
      large: 2 ** 53 - 1,
    },
    { id: 'b', none: null, bytes: Buffer.from([0, 10, 255]), empty: Buffer.alloc(0), word: '' },
  ]
  const lines = Buffer.concat(rows.map(toRowLine))
  assert.deepEqual(readRowLines('rows/x', lines), rows)
  const plain = { bytes: new Uint8Array([1, 2, 3]) }
  assert.deepEqual(readRowLines('rows/x', toRowLine(plain)), [{ bytes: Buffer.from([1, 2, 3]) }])
})

test('an invalid line is rejected', () => {
  for (const line of [
    '[]',
    'null',
    '1',
    '"a"',
    '{}',
    '{',
    '',
    '{"a":[]}',
    '{"a":{}}',
    '{"a":true}',
  ]) {
    const read = () => readRowLines('rows/x', Buffer.from(`{"a":1}\n${line}\n`))
    assert.throws(read, /^BackupError: rows\/x: line 2 is not a row\.$/, line)
  }
  assert.throws(() => readRowLines('rows/x', Buffer.from('{"a":1}')), /incomplete/)
})
