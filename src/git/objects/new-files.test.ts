import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createNewFilesParser } from './new-files.ts'

const id = (digit: string) => digit.repeat(40)
const zeros = id('0')

test('commits and files are parsed at all chunk boundaries, with any names', () => {
  const odd = `\ncommit ${id('9')} é\n:100644 a`
  const output = Buffer.from(
    [
      `commit ${id('c')} ${id('c')}`,
      '',
      `::100644 100644 100644 ${id('1')} ${id('2')} ${id('3')} MM`,
      odd,
      `commit ${id('b')} ${id('c')}`,
      `\n:000000 100644 ${zeros} ${id('3')} A`,
      'plain',
      `:100644 000000 ${id('4')} ${zeros} D`,
      'gone',
      `commit ${id('a')} ${id('c')}`,
      `\n:000000 100644 ${zeros} ${id('5')} A`,
      'other',
      '',
    ].join('\0'),
  )
  for (let size = 1; size <= output.length; size += 3) {
    const parser = createNewFilesParser(new Set([id('3')]))
    for (let at = 0; at < output.length; at += size) parser.push(output.subarray(at, at + size))
    assert.deepEqual(parser.end(), [
      {
        id: id('c'),
        source: id('c'),
        files: [{ path: odd, after: id('3'), before: [id('1'), id('2')] }],
      },
      {
        id: id('b'),
        source: id('c'),
        files: [
          { path: 'plain', after: id('3'), before: [zeros] },
          { path: 'gone', after: zeros, before: [id('4')] },
        ],
      },
      { id: id('a'), source: id('c'), files: [] },
    ])
  }
})

test('the status of a file in a merge of 40 commits is no id', () => {
  const before = Array.from({ length: 40 }, () => id('1'))
  const modes = Array.from({ length: 41 }, () => '100644')
  const words = [...modes, ...before, id('3'), 'M'.repeat(40)].join(' ')
  const parser = createNewFilesParser(new Set([id('3')]))
  parser.push(Buffer.from(`commit ${id('c')} ${id('c')}\0\0${':'.repeat(40)}${words}\0file\0`))
  assert.deepEqual(parser.end(), [
    { id: id('c'), source: id('c'), files: [{ path: 'file', after: id('3'), before }] },
  ])
})
