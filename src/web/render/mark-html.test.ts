import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { markedText, markHtml } from './mark-html.ts'

test('marks ranges across elements', () => {
  const text = '<span class="h-keyword">const</span> a &lt; <span class="h-title">b</span>'
  assert.equal(
    markHtml(
      text,
      [
        [3, 7],
        [8, 11],
      ],
      'ins',
    ).text,
    '<span class="h-keyword">con<ins>st</ins></span><ins> a</ins> <ins>&lt; </ins><span class="h-title"><ins>b</ins></span>'.replace(
      '</ins></span><ins> a',
      '</ins></span><ins> a',
    ),
  )
})

test('marks plain text as it is marked before it is HTML', () => {
  const text = fc
    .array(fc.constantFrom('a', '<', '&', '"', "'", '\u202e', '\r', '😀', 'é', ' '), {
      maxLength: 20,
    })
    .map((characters) => characters.join(''))
  fc.assert(
    fc.property(text, fc.nat(20), fc.nat(20), (line, one, other) => {
      const [start, end] = [Math.min(one, other), Math.max(one, other)]
      // Ranges are those of whole words, and so of whole characters; runs of hidden ones are marked as one.
      const isComplete = (at: number) =>
        !/[\udc00-\udfff]/.test(line[at] ?? '') && !/[\u202e\r]{2}/.test(line.slice(at - 1, at + 1))
      if (start >= end || end > line.length || !isComplete(start) || !isComplete(end)) return
      const plain = markedText(line, [], 'ins').text
      assert.equal(
        markHtml(plain, [[start, end]], 'ins').text,
        markedText(line, [[start, end]], 'ins').text,
      )
    }),
  )
})
