import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { character } from '../../../test/support/fuzz.ts'
import { hiddenIn } from '../../../test/support/page-markup.ts'
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

test('no text becomes markup, or has characters that cannot be seen', () => {
  const odd = fc.constantFrom('\u0000', '\u001b', '\u0085', '\u202e', '\u200b', '<', '"', 'a')
  const text = fc.oneof(fc.string({ unit: character }), fc.string({ unit: odd }))
  fc.assert(
    fc.property(text, (value) => {
      assert.doesNotMatch(escapeHtml(value), /[<>"']/)
      const plain = html`${value}`.text.replace(
        /<span class="unseen">U\+[0-9A-F]{4}(?: U\+[0-9A-F]{4}){0,3}(?: and \d+ more)?<\/span>/g,
        '',
      )
      assert.doesNotMatch(plain, /[<>"']/)
      assert.deepEqual(hiddenIn(plain), [])
      const { text: title } = html`<title>${value}</title><p title="a ${value}" alt="${[value]}">`
      assert.doesNotMatch(title, /unseen/)
      assert.deepEqual(hiddenIn(title), [])
    }),
  )
})

test('hidden characters are shown in text and in labels, and kept in the values of forms', () => {
  const value = '\u202e\u001b'
  assert.equal(
    html`<p class="x">${value} ${'"'}</p>`.text,
    '<p class="x"><span class="unseen">U+202E U+001B</span> &quot;</p>',
  )
  assert.equal(html` title="a ${value}"`.text, ' title="a [U+202E U+001B]"')
  assert.equal(
    html`<title>${value}</title>${'\u0007'}`.text.split('>')[1],
    '[U+202E U+001B]</title',
  )
  assert.equal(html`<input value="${value}">`.text, '<input value="&#x202e;&#x1b;">')
  assert.equal(
    html`<a title="x" href="${value}">${value}</a>`.text,
    '<a title="x" href="&#x202e;&#x1b;"><span class="unseen">U+202E U+001B</span></a>',
  )
  assert.equal(html`<textarea>${value}</textarea>`.text, '<textarea>&#x202e;&#x1b;</textarea>')
})

test('a text becomes HTML in proportion to its length', () => {
  const texts = [
    '\u001b\u0001'.repeat(100_000),
    '\u202e'.repeat(100_000),
    'a\u202e'.repeat(100_000),
  ]
  for (const text of texts) assert.ok(html`${text}`.text.length < 2 * text.length)
  assert.equal(
    html`${texts[0]}`.text,
    '<span class="unseen">U+001B U+0001 U+001B U+0001 and 199996 more</span>',
  )
})
