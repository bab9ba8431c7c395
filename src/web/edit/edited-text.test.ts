import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toContent } from './edited-text.ts'

const cases: { about: string; former: string; sent: string; expected: string }[] = [
  { about: 'a new file', former: '', sent: 'a\r\nb', expected: 'a\nb\n' },
  { about: 'an empty file', former: '', sent: '', expected: '' },
  { about: 'a file that becomes empty', former: 'a\n', sent: '', expected: '' },
  { about: 'a line without an ending', former: 'a\n', sent: 'b', expected: 'b\n' },
  { about: 'no ending at the end', former: 'a\nb', sent: 'a\r\nc', expected: 'a\nc' },
  { about: 'an ending that is added', former: 'a', sent: 'a\r\n', expected: 'a\n' },
  { about: 'CRLF', former: 'a\r\nb\r\n', sent: 'a\r\nx\r\nb\r\n', expected: 'a\r\nx\r\nb\r\n' },
  { about: 'CRLF, none at the end', former: 'a\r\nb', sent: 'x\r\nb', expected: 'x\r\nb' },
  {
    about: 'mixed endings',
    former: 'a\nb\r\nc\r\nd\ne\rf\n',
    sent: 'a\r\nb\r\nX\r\nd\r\ne\r\nf\r\n',
    expected: 'a\nb\r\nX\nd\ne\rf\n',
  },
  {
    about: 'the same lines again',
    former: 'a\r\na\r\n',
    sent: 'a\r\na\r\na\r\n',
    expected: 'a\r\na\r\na\r\n',
  },
  { about: 'lines that go', former: 'a\r\nb\nc\r\n', sent: 'c\r\n', expected: 'c\r\n' },
]

test('the content that is committed has the line endings of the file', () => {
  for (const { about, former, sent, expected } of cases)
    assert.equal(toContent(sent, former), expected, about)
})

test('a text that was not changed is the same content', () => {
  for (const { former } of cases)
    assert.equal(toContent(former.replace(/\r\n?|\n/g, '\r\n'), former), former)
})
