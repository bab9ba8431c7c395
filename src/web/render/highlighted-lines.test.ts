import assert from 'node:assert/strict'
import { test } from 'node:test'
import { closeInLines, renderCode } from './highlighted-lines.ts'
import { languageOf } from './languages.ts'
import { renderPlainText } from './numbered-lines.ts'

test('elements that span lines are closed at their ends', () => {
  assert.deepEqual(closeInLines(['<span class="a">x', 'y<span class="b">', 'z</span></span>!']), [
    '<span class="a">x</span>',
    '<span class="a">y<span class="b"></span></span>',
    '<span class="a"><span class="b">z</span></span>!',
  ])
})

test('every line of code is an element with its number', () => {
  const html = renderCode('/* a\nb */\nlet x = "<b>"\n', 'x.js') ?? ''
  assert.equal(html.match(/<span id="L\d+">/g)?.length, 3)
  assert.match(html, /<span id="L2"><span class="h-comment">b \*\/<\/span>\n<\/span>/)
  assert.match(html, /&lt;b&gt;/)
})

test('the language is that of the name alone', () => {
  assert.equal(languageOf('a.ts'), 'ts')
  assert.equal(languageOf('Dockerfile'), 'dockerfile')
  assert.equal(languageOf('CMakeLists.txt'), 'cmake')
  for (const name of ['LICENSE', 'a.txt', 'constructor', '__proto__', 'x.constructor', 'js'])
    assert.equal(languageOf(name), undefined, name)
})

test('invisible characters show, and text is escaped', () => {
  const html = renderPlainText('a\u202eb\x1b[31m\n<script>\r\nx\ry\u200b')
  assert.equal(
    html,
    '<span id="L1">a<span class="unseen">U+202E</span>b<span class="unseen">U+001B</span>[31m\n</span>' +
      '<span id="L2">&lt;script&gt;\n</span>' +
      '<span id="L3">x<span class="unseen">U+000D</span>y<span class="unseen">U+200B</span>\n</span>',
  )
})
