import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import fc from 'fast-check'
import { shorten, toToolResult } from './tool-output.ts'

const none = new URLSearchParams()
const of = (value: unknown, query = none, headers = {}) =>
  toToolResult({ status: 200, headers, value }, query).then(({ content }) =>
    content.map(({ text }) => text),
  )

test('JSON has a limited length, and is valid while only texts are long', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.integer({ min: 1, max: 500 }), (value, limit) => {
      const note = 40
      assert.ok(shorten(value, limit).length <= limit + note)
    }),
  )
  const output = `${'x'.repeat(50_000)}the end`
  const shortened = JSON.parse(shorten({ steps: [{ output }] }, 10_000))
  assert.match(shortened.steps[0].output, /^\(\d+ characters omitted\)…x+the end$/)
})

test('a list that is too long for a result names a limit that fits', async () => {
  const items = Array.from({ length: 100 }, (_, index) => ({ index, text: 'x'.repeat(5000) }))
  const [list = '', note] = await of(items, none, { link: '</x?limit=100&cursor=c>; rel="next"' })
  const { length } = JSON.parse(list)
  assert.ok(length > 0 && length < 100 && list.length <= 40_000)
  assert.equal(
    note,
    `Only ${length} of the 100 on this page are shown: call again with a limit of ${length} or less.`,
  )
})

test('the end of a long log is shown, and how to get the rest', async () => {
  const line = 'zażółć gęślą jaźń\n'
  const log = line.repeat(5000)
  const bytes = Buffer.from(log)
  const [text = '', note = ''] = await of(Readable.from(chunksOf(bytes)))
  const [, omitted] = /first (\d+) bytes/.exec(note) ?? []
  assert.ok(log.endsWith(text))
  assert.equal(Number(omitted) + Buffer.byteLength(text), bytes.length)
})

test('a log is read from an offset on, piece by piece', async () => {
  const bytes = Buffer.from('zażółć gęślą jaźń\n'.repeat(5000))
  let joined = ''
  for (let offset = 0; ; ) {
    const rest = Readable.from(chunksOf(bytes.subarray(offset)))
    const [text = '', note] = await of(rest, new URLSearchParams({ offset: String(offset) }))
    assert.ok(text.length > 0 && text.length <= 30_000)
    joined += text
    if (note === undefined) break
    offset = Number(/offset (\d+)/.exec(note)?.[1])
  }
  assert.equal(joined, bytes.toString())
})

function* chunksOf(bytes: Buffer): Generator<Buffer> {
  for (let start = 0; start < bytes.length; start += 1001) yield bytes.subarray(start, start + 1001)
}
