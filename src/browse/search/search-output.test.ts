import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSearchParser, type SearchMatch } from './search-output.ts'

function parse(chunks: Buffer[], text: string): SearchMatch[] {
  const found: SearchMatch[] = []
  const matchBytes = Buffer.byteLength(text)
  const parser = createSearchParser({
    prefixBytes: 'abc:'.length,
    matchBytes,
    onMatch: (match) => found.push(match),
  })
  for (const chunk of chunks) parser(chunk)
  return found
}

const shown = ({ text, matchStart, matchLength }: SearchMatch) =>
  text.slice(matchStart, matchStart + matchLength)

test('matches are parsed wherever the output is divided', () => {
  const output = Buffer.concat([
    Buffer.from('abc:line\nfeed\x0012\x006\0xé '),
    Buffer.from([0xff]),
    Buffer.from('über\r\nabc:b\x001\x001\0über\n'),
  ])
  const whole = parse([output], 'über')
  assert.deepEqual(whole, [
    {
      path: 'line\nfeed',
      line: 12,
      column: 6,
      text: 'xé \ufffdüber\r',
      isCut: false,
      matchStart: 4,
      matchLength: 4,
    },
    {
      path: 'b',
      line: 1,
      column: 1,
      text: 'über',
      isCut: false,
      matchStart: 0,
      matchLength: 4,
    },
  ])
  for (let at = 0; at <= output.length; at++)
    assert.deepEqual(
      parse([output.subarray(0, at), output.subarray(at)], 'über'),
      whole,
      String(at),
    )
  assert.deepEqual(
    parse(
      [...output].map((byte) => Buffer.from([byte])),
      'über',
    ),
    whole,
  )
})

test('of a long line the part around the match is kept, wherever it is', () => {
  for (let before = 0; before < 1200; before += 7) {
    const line = `${'é'.repeat(before)}needle${'ü'.repeat(2000)}`
    const output = Buffer.from(`abc:a\x001\0${before * 2 + 1}\0${line}\n`)
    const [match, ...more] = parse([output], 'needle')
    assert.ok(match && more.length === 0)
    assert.equal(shown(match), 'needle')
    assert.ok(match.isCut)
    assert.ok(line.includes(match.text), String(before))
    assert.ok(match.text.length > 200)
    for (const at of [1, 300, 1000, output.length - 2])
      assert.deepEqual(parse([output.subarray(0, at), output.subarray(at)], 'needle'), [match])
  }
})
