import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Content, escapeHtml, html, trusted } from './html.ts'

test('values are escaped, in text and in attributes', () => {
  const value = `<b title="x" a='y'>&</b>`
  assert.equal(
    html`<p title="${value}">${value}</p>`.text,
    '<p title="&lt;b title=&quot;x&quot; a=&#39;y&#39;&gt;&amp;&lt;/b&gt;">&lt;b title=&quot;x&quot; a=&#39;y&#39;&gt;&amp;&lt;/b&gt;</p>',
  )
})

test('HTML stands as it is, lists are joined, and nothing is left out', () => {
  const rows: Content[] = ['<', 1, html`<i>${'&'}</i>`, [false, null, undefined, trusted('<hr>')]]
  assert.equal(html`${rows}${0}`.text, '&lt;1<i>&amp;</i><hr>0')
})

test('no text becomes markup', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      assert.doesNotMatch(escapeHtml(text), /[<>"']/)
      assert.equal(html`${text}`.text, escapeHtml(text))
    }),
  )
})
