import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { renderMarkdown } from './markdown.ts'

const place = { src: '/r/x/src/main', raw: '/r/x/raw/main', folder: 'docs' }
const render = (text: string) => renderMarkdown(text, place)?.trim() ?? ''

/** Asserts that a browser finds only the elements and attributes of documents in HTML. */
function assertHarmless(html: string): void {
  const tags = html.match(/<[^>]*>/g) ?? []
  for (const tag of tags) {
    assert.match(tag, /^<\/?[a-z][a-z0-9]*( [a-z]+(="[^"<>]*")?)*>$/, tag)
    assert.doesNotMatch(
      tag,
      /^<\/?(script|style|svg|math|iframe|object|embed|form|input|meta|link|base|template|textarea|noscript|title)\b/,
    )
    const names = tag.replace(/="[^"]*"/g, '')
    assert.doesNotMatch(names, / (on[a-z]+|style|srcset|formaction|target)\b/)
    const [, address] = / (?:href|src)="([^"]*)"/.exec(tag) ?? []
    if (address !== undefined) assert.match(address, /^(\/r\/x\/|https?:\/\/|mailto:|#)/)
  }
  assert.doesNotMatch(html.replace(/<[^>]*>/g, ''), /</)
}

const hostile = [
  '<script>alert(1)</script>',
  '<img src=x onerror=alert(1)>',
  '<a href="javascript:alert(1)">x</a>',
  '<a href="jav&#x09;ascript:alert(1)">x</a>',
  '<a href="java\nscript:alert(1)">x</a>',
  '<a href="&Tab;javascript&colon;alert(1)">x</a>',
  '[x](javascript:alert(1))',
  '[x](vbscript:x) ![x](data:text/html,x)',
  '<svg><script>alert(1)</script></svg>',
  '<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>',
  '<iframe srcdoc="<script>alert(1)</script>"></iframe>',
  '<meta http-equiv=refresh content="0;url=https://evil.example">',
  '<base href="https://evil.example/">',
  '<form action="https://evil.example"><input name=q><button>x</button></form>',
  '<style>*{display:none}</style><link rel=stylesheet href=//evil>',
  '<details open ontoggle=alert(1)><summary>x</summary></details>',
  '<img src="x"onerror="alert(1)">',
  '<img/src="x"/onerror=alert(1)>',
  '<p title="</p><script>alert(1)</script>">x</p>',
  "<p title='\"><script>alert(1)</script>'>x</p>",
  '<noscript><p title="</noscript><img src=x onerror=alert(1)>">',
  '<textarea><img title="</textarea><img src=x onerror=alert(1)>"></textarea>',
  '<!--><img src=x onerror=alert(1)>-->',
  '<a id="x" name="content">x</a><p id=content>',
  '<<script>script>alert(1)<</script>/script>',
  '```"><script>\n</script>\n```',
  '[x]: javascript:alert(1)\n\n[x]',
  '<a href="//evil.example/x">x</a>',
  '<img src="\\\\evil.example\\x">',
  '<div style="position:fixed;inset:0" class="menu-list">x</div>',
]

test('nothing of a hostile document runs or leaves', () => {
  for (const text of hostile) assertHarmless(render(text))
  assertHarmless(render(hostile.join('\n\n')))
})

test('no text becomes more than a document', () => {
  const part = fc.oneof(
    fc.constantFrom(...hostile),
    fc.string(),
    fc.constantFrom('<', '>', '"', "'", '`', '&', '</', '<!--', ']]>', '[', '](', '\n', '=', '/'),
  )
  fc.assert(
    fc.property(fc.array(part, { maxLength: 12 }), (parts) =>
      assertHarmless(render(parts.join(''))),
    ),
    { numRuns: 400 },
  )
})

test('elements are balanced, so nothing is outside of the document', () => {
  assert.equal(render('</div></main>x'), 'x')
  assert.equal(render('<div><b>x'), '<div><b>x</b></div>')
})

test('links and images lead to pages of the same revision', () => {
  assert.match(render('[x](../src/a%20b.ts#L3)'), /href="\/r\/x\/src\/main:src\/a%20b.ts#L3"/)
  assert.match(render('[x](/README.md#Top)'), /href="\/r\/x\/src\/main:README.md#u-Top"/)
  assert.match(render('![x](logo.png)'), /<img src="\/r\/x\/raw\/main:docs\/logo.png"/)
  assert.match(render('[x](../../../etc/passwd)'), /<a>x<\/a>/)
  assert.match(render('[x](?a=1&b=2)'), /href="\/r\/x\/src\/main:docs"/)
})

test('images of other hosts are links', () => {
  const html = render('![build](https://img.example/a?b=1&c=2)')
  assert.doesNotMatch(html, /<img/)
  assert.match(
    html,
    /<a href="https:\/\/img.example\/a\?b=1&amp;c=2" rel="nofollow noreferrer">build \(image at img.example\)<\/a>/,
  )
  assert.doesNotMatch(render('[![b](https://i.example/x)](https://l.example)'), /<a[^>]*><a/)
})

test('headings begin below that of the page, and skip no level', () => {
  const levels = [...render('# a\n\n#### b\n\n## c\n\n<h6>d</h6>').matchAll(/<h(\d)/g)]
  assert.deepEqual(
    levels.map(([, level]) => level),
    ['2', '3', '3', '4'],
  )
  assert.match(render('# A & b\n\n# A & b'), /id="u-a--b"[\s\S]*id="u-a--b-1"/)
})

test('headings have anchors with their own names, however they are written', () => {
  for (const [text, name] of [
    ['# Hello', 'hello'],
    ['Größe\n===', 'größe'],
    ['<h2 id="by-hand">Z</h2>', 'by-hand'],
    ['> ### In a quote', 'in-a-quote'],
  ] as const)
    assert.match(
      render(text),
      new RegExp(
        `<h\\d id="u-${name}"><a class="anchor" name="${name}" href="#${name}" title="[^"]*"></a>`,
      ),
    )
  assert.doesNotMatch(render('# ***'), /name=""/)
})

test('tables keep their alignment, and tasks their boxes', () => {
  assert.match(render('|a|\n|-:|\n|1|'), /<td align="right">1<\/td>/)
  assert.match(render('- [ ] a\n- [x] b'), /☐ a[\s\S]*☑ b/)
})

test('characters that hide something are shown', () => {
  assert.match(render('a\u202eb'), /a<span class="unseen">U\+202E<\/span>b/)
})

test('addresses that are written in full are links, and nothing else is', () => {
  const html = render(
    'See https://example.com/a_b?c=1&d=2. Or (http://x.example), mailto:ada@example.com.',
  )
  const links = [...html.matchAll(/href="([^"]*)"/g)].map(([, href]) => href)
  assert.deepEqual(links, [
    'https://example.com/a_b?c=1&amp;d=2',
    'http://x.example/',
    'mailto:ada@example.com',
  ])
  const plain =
    'example.com ada@example.com //example.com ftp://example.com javascript:alert(1) main.ts'
  assert.doesNotMatch(render(plain), /<a /)
  assert.doesNotMatch(render('`https://example.com`'), /<a /)
})

test('an anchor without an address is no link, by either attribute and in either case', () => {
  for (const [anchor, name] of [
    ['<a name="x">Text</a>', 'x'],
    ['<a id="x">Text</a>', 'x'],
    ['<A NAME=x>Text</A>', 'x'],
    ["## <a name='top'></a>Text", 'top'],
    ['<a name="x" id="y">Text</a>', 'y'],
  ] as const) {
    const html = render(anchor)
    assert.match(html, new RegExp(`<a id="u-${name}">`), html)
    assert.doesNotMatch(html.replace(/<a class="anchor"[^>]*>/, ''), /<a[^>]* href=/)
  }
  assert.match(render('<a name="x" href="#y">Text</a>'), /<a href="#u-y" id="u-x">Text<\/a>/)
})

test('an address whose host browsers read differently is no link', () => {
  for (const address of [
    'http://evil.example\\@host.example/',
    'https:\\\\evil.example/x',
    '//evil.example\\@host.example',
    'http:/\\evil.example',
  ]) {
    for (const text of [`<a href="${address}">x</a>`, `<img alt="x" src="${address}">`]) {
      const html = render(text)
      assert.doesNotMatch(html, /href=|src=/, text)
    }
  }
  assert.match(render('<a href="https://host.example/a?b=\\c">x</a>'), /href="https:/)
})

test('a quote that begins with a mark is an alert, with its kind in words', () => {
  for (const kind of ['Note', 'Tip', 'Important', 'Warning', 'Caution']) {
    const html = render(`> [!${kind.toUpperCase()}]\n> Text **b**`)
    assert.match(html, new RegExp(`^<blockquote class="alert-${kind.toLowerCase()}">`))
    assert.match(html, new RegExp(`<p><strong>${kind}</strong><br>\nText <strong>b</strong></p>`))
  }
  assert.match(render('- > [!note]\n  >\n  > x'), /alert-note[\s\S]*<p>x/)
  for (const none of ['> [!NOTE] x', '> x\n> [!NOTE]', '> [!OTHER]\n> x', '[!NOTE]'])
    assert.doesNotMatch(render(none), /alert-/, none)
})

test('what is nested too deep is said to be left out, and nothing else is lost', () => {
  const note = /What is nested deeper is not shown; the raw file has it\.<\/(p|li)>/g
  const nestings = {
    quotes: (depth: number) => `${'> '.repeat(depth)}deep`,
    alerts: (depth: number) => `${'> '.repeat(depth)}[!NOTE]\n${'> '.repeat(depth)}deep`,
    lists: (depth: number) => `${'- '.repeat(depth)}deep`,
    both: (depth: number) => `${'> - '.repeat(depth)}deep`,
  }
  for (const [kind, nest] of Object.entries(nestings)) {
    let lost = 0
    for (let depth = 1; depth <= 60; depth++) {
      const html = render(`before\n\n${nest(depth)}\n\nafter`)
      const isShown = html.includes('deep</p>') || html.includes('deep</li>')
      assert.equal(html.match(note)?.length ?? 0, isShown ? 0 : 1, `${kind} ${depth}`)
      if (!isShown) lost += 1
      assert.match(html, /^<p>before[\s\S]*<p>after<\/p>/)
    }
    assert.ok(lost > 5, kind)
  }
})

test('footnotes are numbered at the end of the document, with links there and back', () => {
  const html = render(
    'A[^b], B[^a] and A[^b]; none[^c].\n\n[^a]: One\n[^b]: Two\n\n    more <b onclick=x>x</b>\n\n[^d]: Unused\n\nEnd',
  )
  assert.match(
    html,
    /A<sup><a href="#u-fn-1" id="u-fnref-1">1<\/a><\/sup>, B<sup><a href="#u-fn-2"/,
  )
  assert.match(html, /A<sup><a href="#u-fn-1" id="u-fnref-1-2">1<\/a><\/sup>; none\[\^c\]\./)
  assert.match(html, /<p>End<\/p>\n<hr><ol><li id="u-fn-1"><p>Two<\/p>\n<p>more <b>x<\/b><\/p>/)
  assert.match(
    html,
    /href="#u-fnref-1-2"[\s\S]*<li id="u-fn-2"><p>One<\/p>\n<p><a href="#u-fnref-2"/,
  )
  assert.doesNotMatch(html, /Unused/)
  assertHarmless(render('[^"><script>alert(1)</script>]\n\n[^"><script>alert(1)</script>]: x'))
  assert.equal(render('`[^a]`\n\n[^a]: x'), '<p><code>[^a]</code></p>')
})
