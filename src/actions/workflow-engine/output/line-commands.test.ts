import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createCommandReader } from './line-commands.ts'

const read = (...lines: string[]) => {
  const reader = createCommandReader()
  return lines.map((line) => reader(line))
}

test('add-mask unescapes its value', () => {
  assert.deepEqual(read('::add-mask::a%0Ab%25\n', '  ::add-mask::x::y\r\n'), [
    { kind: 'add-mask', value: 'a\nb%' },
    { kind: 'add-mask', value: 'x::y' },
  ])
})

test('save-state has a name and a value, both escaped', () => {
  assert.deepEqual(read('::save-state name=a%2Cb::1%0A2\n'), [
    { kind: 'save-state', name: 'a,b', value: '1\n2' },
  ])
})

test('commands that GitHub has removed do nothing and name the replacement', () => {
  const [output, env] = read('::set-output name=a::1\n', '::set-env name=A::1\n')
  assert.match(JSON.stringify(output), /disabled.*\$GITHUB_OUTPUT/)
  assert.match(JSON.stringify(env), /disabled.*\$GITHUB_ENV/)
})

test('errors, warnings and notices have properties', () => {
  assert.deepEqual(read('::error file=a.js,line=1,title=a%3Ab::no%0A\n', '::notice::x\n'), [
    {
      kind: 'annotation',
      level: 'error',
      properties: { file: 'a.js', line: '1', title: 'a:b' },
      message: 'no\n',
    },
    { kind: 'annotation', level: 'notice', properties: {}, message: 'x' },
  ])
})

test('lines that only resemble commands are ordinary lines', () => {
  const lines = ['::group::Tests\n', 'std::vector::x\n', '::\n', '::::\n']
  assert.deepEqual(
    read(...lines),
    lines.map(() => undefined),
  )
})

test('between stop-commands and its token there are no commands', () => {
  const values = read(
    '::stop-commands::halt\n',
    '::add-mask::no\n',
    '::other::\n',
    '::halt::\n',
    '::add-mask::yes\n',
  )
  assert.deepEqual(values.slice(0, -1), [undefined, undefined, undefined, undefined])
  assert.deepEqual(values.at(-1), { kind: 'add-mask', value: 'yes' })
})

test('the case of names does not matter', () => {
  assert.deepEqual(read('::Add-Mask::Value\n', '::ERROR File=A.js,endLine=2::No\n'), [
    { kind: 'add-mask', value: 'Value' },
    {
      kind: 'annotation',
      level: 'error',
      properties: { file: 'A.js', endline: '2' },
      message: 'No',
    },
  ])
  const [, , , last] = read(
    '::Stop-Commands::Halt\n',
    '::add-mask::no\n',
    '::hALT::\n',
    '::add-mask::yes\n',
  )
  assert.deepEqual(last, { kind: 'add-mask', value: 'yes' })
})
