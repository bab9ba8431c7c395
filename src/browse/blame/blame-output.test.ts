import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type BlameRange, createBlameParser, joinRanges } from './blame-output.ts'

const [one, two] = ['1'.repeat(40), '2'.repeat(40)]

const output = Buffer.from(
  `${two} 3 7 2
author filename x
summary previous ${one} y
previous ${one} "re\\377n\\n\\"x\\""
filename "a\\tb"
${one} 1 1 6
author Ada
boundary
filename plain name
${two} 1 9 1
previous ${one} old
filename plain name
`,
  'latin1',
)

const ranges: BlameRange[] = [
  {
    start: 7,
    count: 2,
    commit: two,
    originalStart: 3,
    originalPath: 'a\tb',
    previous: { commit: one, path: 're\xffn\n"x"' },
  },
  { start: 1, count: 6, commit: one, originalStart: 1, originalPath: 'plain name' },
  {
    start: 9,
    count: 1,
    commit: two,
    originalStart: 1,
    originalPath: 'plain name',
    previous: { commit: one, path: 'old' },
  },
]

function parse(chunks: Buffer[]): BlameRange[] {
  const found: BlameRange[] = []
  const parser = createBlameParser((range) => found.push(range))
  for (const chunk of chunks) parser(chunk)
  return found
}

test('ranges are parsed wherever the output is divided', () => {
  for (let at = 0; at <= output.length; at++)
    assert.deepEqual(parse([output.subarray(0, at), output.subarray(at)]), ranges, String(at))
  const bytes = [...output].map((byte) => Buffer.from([byte]))
  assert.deepEqual(parse(bytes), ranges)
})

test('a long line is not kept', () => {
  const long = Buffer.alloc(100_000, 'x')
  const [, second = ''] = output.toString('latin1').split('author filename x\n')
  const head = Buffer.from(`${two} 3 7 2\nsummary `)
  const chunks = [head, ...Array<Buffer>(50).fill(long), Buffer.from(`\n${second}`, 'latin1')]
  assert.deepEqual(parse(chunks), ranges)
})

test('ranges that continue one another are joined', () => {
  const range = { commit: one, originalPath: 'a', originalStart: 5, start: 2, count: 3 }
  const next = { ...range, originalStart: 8, start: 5, count: 1 }
  const elsewhere = { ...range, originalStart: 20, start: 6, count: 1 }
  assert.deepEqual(joinRanges([elsewhere, next, range]), [{ ...range, count: 4 }, elsewhere])
})
