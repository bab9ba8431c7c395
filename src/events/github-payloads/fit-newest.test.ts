import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { character } from '../../../test/support/fuzz.ts'
import { fitNewest } from './fit-newest.ts'
import { toText } from './to-text.ts'

const item = (name: string) => ({ full: { name, files: ['x'.repeat(50)] }, short: { name } })
const bytes = (values: object[]) =>
  values.reduce((sum, one) => sum + toText({ ...one }).length + 1, 0)

test('the oldest are shortened first, then omitted', () => {
  const [a, b, c] = [item('a'), item('b'), item('c')]
  const all = bytes([a.full, b.full, c.full])
  assert.deepEqual(fitNewest([a, b, c], all), {
    items: [a.full, b.full, c.full],
    isComplete: true,
  })
  assert.deepEqual(fitNewest([a, b, c], all - 1), {
    items: [a.short, b.full, c.full],
    isComplete: false,
  })
  const shorts = bytes([a.short, b.short, c.short])
  assert.deepEqual(fitNewest([a, b, c], shorts).items, [a.short, b.short, c.short])
  assert.deepEqual(fitNewest([a, b, c], shorts - 1).items, [b.short, c.short])
  assert.deepEqual(fitNewest([a, b, c], 0), { items: [], isComplete: false })
  assert.deepEqual(fitNewest([], 0), { items: [], isComplete: true })
})

test('the limit counts the JSON in UTF-8', () => {
  const texts = fc.string({ unit: character, maxLength: 40 })
  const lists = fc.array(fc.record({ text: texts, files: fc.array(texts, { maxLength: 5 }) }))
  fc.assert(
    fc.property(lists, fc.nat(2000), (list, maxBytes) => {
      const items = list.map((full) => ({ full, short: { ...full, files: [] } }))
      const fitted = fitNewest(items, maxBytes)
      if (fitted.items.length > 0)
        assert.ok(Buffer.byteLength(toText(fitted.items)) - 1 <= maxBytes)
      assert.equal(fitted.isComplete, toText(fitted.items) === toText(list))
    }),
  )
})

test('a lone surrogate becomes U+FFFD', () => {
  assert.equal(
    toText({ text: 'a\ud800b', list: ['\udc00'] }),
    '{"text":"a\u{fffd}b","list":["\u{fffd}"]}',
  )
})
