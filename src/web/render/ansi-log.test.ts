import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { character } from '../../../test/support/fuzz.ts'
import { createAnsiReader } from './ansi-log.ts'
import { outputLines, renderLogLines } from './log-lines.ts'

const read = (line: string) => createAnsiReader()(line)
const rendered = (text: string) =>
  renderLogLines(outputLines(text), { idPrefix: 'L', firstNumber: 1 }).text

test('colours and decorations become classes, and go on in the next line', () => {
  const reader = createAnsiReader()
  assert.deepEqual(reader('a \x1b[31mred \x1b[1mbold'), [
    ['', 'a '],
    ['ansi-red', 'red '],
    ['ansi-red ansi-bold', 'bold'],
  ])
  assert.deepEqual(reader('on\x1b[0m off'), [
    ['ansi-red ansi-bold', 'on'],
    ['', ' off'],
  ])
})

test('all colours of terminals become one of seven', () => {
  const cases: [sequence: string, classes: string][] = [
    ['92', 'ansi-green'],
    ['90', 'ansi-gray'],
    ['37', ''],
    ['38;5;196', 'ansi-red'],
    ['38;5;244', 'ansi-gray'],
    ['38;2;20;40;250', 'ansi-blue'],
    ['38:2:250:240:10', 'ansi-yellow'],
    ['41;97', 'ansi-on-red'],
    ['7', 'ansi-on-gray'],
    ['36;7', 'ansi-on-cyan'],
  ]
  for (const [sequence, classes] of cases)
    assert.deepEqual(read(`\x1b[${sequence}mx`), [[classes, 'x']], sequence)
})

test('other escape sequences are removed, and carriage returns overwrite', () => {
  const text = (line: string) =>
    read(line)
      .map(([, part]) => part)
      .join('')
  assert.equal(
    text('\x1b]0;title\x07a\x1b]8;;https://x\x1b\\b\x1b[2K\x1b[1;1Hc\x1bP1$r\x1b\\d'),
    'abcd',
  )
  assert.equal(text('10%\r50%\r100%\r'), '100%')
  assert.equal(text('\x1b[31'), '')
  assert.deepEqual(read('a\x1b[32m\rb'), [['ansi-green', 'b']])
  assert.deepEqual(read('a\u202eb\x08'), [
    ['', 'a'],
    ['unseen', 'U+202E'],
    ['', 'b'],
    ['unseen', 'U+0008'],
  ])
})

test('groups are folded, and every line keeps its number', () => {
  const html = rendered(
    'one\n::group::Set <up>\ntwo\nthree\n::endgroup::\nlast\n::error file=a,line=1::no',
  )
  assert.equal(
    html.replaceAll('\n', ''),
    '<li id="L1">one</li><li class="log-group" id="L2" value="2"><details><summary>Set &lt;up&gt;</summary><ol start="3">' +
      '<li id="L3">two</li><li id="L4">three</li></ol></details></li><li id="L6" value="6">last</li>' +
      '<li id="L7"><span class="bad">Error: </span>no</li>',
  )
})

test('nothing but text and known elements comes out of any log', () => {
  const piece = fc.oneof(
    fc.string({ unit: character }),
    fc.constantFrom(
      '\x1b[',
      '\x1b]',
      '\x1b',
      '\r',
      '\n',
      '31m',
      '38;5;',
      '::group::',
      '::endgroup::',
    ),
    fc.constantFrom(
      '<script>',
      '"',
      "'",
      '<li onclick=x>',
      '&lt;',
      '</ol>',
      '\x9b',
      '\x1bP',
      ';;;;m',
    ),
  )
  const known =
    /<li id="L\d+"(?: value="\d+")?>|<li class="log-group" id="L\d+" value="\d+">|<details>|<summary>|<ol start="\d+">|<span class="[a-z -]+">|<\/(?:li|details|summary|ol|span)>/g
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
      const rest = rendered(pieces.join('')).replace(known, '')
      assert.doesNotMatch(rest, /[<>"']/)
      assert.doesNotMatch(rest, /[\x00-\x08\x0b-\x1f\x7f-\x9f]/)
    }),
    { numRuns: 100 },
  )
})

test('repeated decorations are kept once', () => {
  const reader = createAnsiReader()
  assert.equal(reader('\x1b[1m\x1b[4mx'.repeat(20_000)).length, 1)
  assert.deepEqual(reader('y'), [['ansi-bold ansi-underline', 'y']])
})
