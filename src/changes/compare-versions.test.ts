import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseRangeDiff } from './compare-versions.ts'

test('commits of two versions are read with what differs between them', () => {
  const [a, b, none] = ['a'.repeat(40), 'b'.repeat(40), '-'.repeat(40)]
  const output = [
    ` 1:  ${a} =  1:  ${b} Paint it`,
    `10:  ${a} ! 11:  ${b} Hang it`,
    '    @@ a.txt',
    `    -1:  ${a} = 1:  ${b} No commit`,
    '    ++two',
    ` -:  ${none} >  3:  ${b} `,
    ` 3:  ${a} <  -:  ${none} - : x`,
    '',
  ].join('\n')
  const diff = `@@ a.txt\n-1:  ${a} = 1:  ${b} No commit\n++two\n`
  assert.deepEqual(parseRangeDiff(output), [
    { status: 'same', from: a, to: b, subject: 'Paint it', diff: '' },
    { status: 'changed', from: a, to: b, subject: 'Hang it', diff },
    { status: 'added', from: null, to: b, subject: '', diff: '' },
    { status: 'removed', from: a, to: null, subject: '- : x', diff: '' },
  ])
  assert.deepEqual(parseRangeDiff(''), [])
})
