import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertMayBeSet, EnvFileError, parseAssignments, parsePath } from './step-files.ts'

const quote = (text: string) => `\`${text}\``
const parse = (text: string) => Object.fromEntries(parseAssignments('GITHUB_OUTPUT', text, quote))

test('a line is a name and a value, which may hold anything but a line end', () => {
  assert.deepEqual(parse('a=1\n\nb=x=y <<z\r\nempty=\na=2'), { a: '2', b: 'x=y <<z', empty: '' })
})

test('a multi-line value ends at its delimiter', () => {
  const text = 'json<<EOF\n{\n  "a=b": 1\n}\nEOF\nnone<<X\nX\nspaced<<E F\n EOF\n\nE F\n'
  assert.deepEqual(parse(text), { json: '{\n  "a=b": 1\n}', none: '', spaced: ' EOF\n' })
})

test('names of Object.prototype are ordinary names', () => {
  const values = parseAssignments('GITHUB_ENV', '__proto__=1\nconstructor=2\n', quote)
  assert.deepEqual(
    [...values],
    [
      ['__proto__', '1'],
      ['constructor', '2'],
    ],
  )
})

test('a fault names the file, the line and what is wrong with it', () => {
  const cases: [string, string][] = [
    [
      'a=1\nword',
      '$GITHUB_OUTPUT, line 2: `word` is neither name=value nor name<<DELIMITER; use the latter for values of several lines.',
    ],
    ['a<<EOF\n1\n EOF', '$GITHUB_OUTPUT, line 1: no later line consists of the delimiter `EOF`.'],
    ['a<<\n1', '$GITHUB_OUTPUT, line 1: the delimiter after << is missing.'],
    ['=1', '$GITHUB_OUTPUT, line 1: a name is missing before the value.'],
    ['<<EOF\nEOF', '$GITHUB_OUTPUT, line 1: a name is missing before the value.'],
  ]
  for (const [text, message] of cases) {
    assert.throws(() => parse(text), new EnvFileError(message))
  }
})

test('the last added directory is first in PATH', () => {
  assert.deepEqual(parsePath('/a\n/b\r\n\n'), ['/b', '/a'])
})

test('NODE_OPTIONS cannot be set for later steps', () => {
  assert.throws(() => assertMayBeSet('Node_Options'), EnvFileError)
  assertMayBeSet('NODE_ENV')
})
