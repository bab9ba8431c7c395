import assert from 'node:assert/strict'
import { test } from 'node:test'
import { renderNotebook } from './notebook.ts'

const place = { src: '/r/x/src/main', raw: '/r/x/raw/main', folder: '' }
const render = (notebook: unknown) => renderNotebook(JSON.stringify(notebook), place)
const hostile = '<script>alert(1)</script><img src=x onerror=alert(1)></pre></div>'
const output = (data: unknown) => ({ output_type: 'display_data', data })

test('a notebook is shown as its cells with their outputs, without its scripts and pictures', () => {
  const html = render({
    metadata: { language_info: { name: 'python' } },
    cells: [
      { cell_type: 'markdown', source: ['# Title\n', `${hostile} **b**`] },
      {
        cell_type: 'code',
        execution_count: 3,
        source: `def f(): return "${hostile}"`,
        outputs: [
          { output_type: 'stream', text: [`out ${hostile}\n`, '\x1b[31mred\x1b[0m'] },
          { output_type: 'error', ename: 'E', evalue: hostile, traceback: [hostile, 'line 2'] },
          output({
            'text/html': `${hostile}<table><tr><td>1</td></tr></table>`,
            'text/plain': '_',
          }),
          output({ 'text/html': '<script>draw()</script>', 'text/plain': 'a figure' }),
          output({ 'image/png': 'AAAA', 'text/plain': '<Figure>' }),
          output({ 'text/markdown': `**m** ${hostile}` }),
          output({ 'text/plain': hostile }),
        ],
      },
      { cell_type: 'raw', source: hostile },
    ],
  })
  assert.ok(html)
  assert.doesNotMatch(html, /<(script|svg|style|iframe)|<[^>]* on\w+=|javascript:|data:/)
  assert.match(
    html,
    /<h2 id="u-title">.*Title<\/h2>[\s\S]*In \[3\]<\/p><pre[^>]*><code><span class="h-/,
  )
  for (const part of [
    'red</pre>',
    'line 2',
    '<td>1</td>',
    'a figure',
    'A picture, which',
    '<strong>m</strong>',
  ])
    assert.ok(html.includes(part), part)
  const count = (pattern: string) => html.match(new RegExp(pattern, 'g'))?.length ?? 0
  for (const tag of ['pre', 'div', 'p', 'table'])
    assert.equal(count(`<${tag}\\b`), count(`</${tag}>`), tag)
})

test('cells and outputs that cannot be shown are said to be left out', () => {
  const noCells = [null, 1, 'x', [], {}, { cell_type: 'code' }, { cell_type: 'raw', source: {} }]
  for (const cell of [...noCells, { source: 'x' }, { cell_type: 'markdown', source: [1] }]) {
    assert.equal(
      render({ cells: [cell] }),
      '<p class="soft">A cell without text, which only the raw file has.</p>',
    )
  }
  const shown = (of: unknown) =>
    render({ cells: [{ cell_type: 'code', source: 'x', outputs: [of] }] })?.split('</pre>')[1] ?? ''
  for (const [of, kind] of [
    [output({ 'application/vnd.plotly.v1+json': {} }), 'the kind application/vnd.plotly.v1+json'],
    [output({ 'application/x+json': {}, 'text/latex': 'x' }), 'the kind application/x+json, text/'],
    [output({ 'text/html': '<script>draw()</script>' }), 'the kind text/html'],
    [output({ 'text/plain': 1 }), 'the kind text/plain'],
    [output({ [hostile]: 1 }), 'the kind &lt;script'],
    [output({}), 'no known kind'],
    [{ output_type: 'stream' }, 'no known kind'],
    [{ output_type: 'error' }, 'no known kind'],
    [{ output_type: 'update' }, 'no known kind'],
    [null, 'no known kind'],
  ] as const) {
    assert.ok(shown(of).startsWith(`<p class="soft">An output of ${kind}`), shown(of))
    assert.match(shown(of), /, which only the raw file has\.<\/p>$/)
  }
  assert.match(shown(output({ 'image/png': 'AAAA' })), /^<p class="soft">A picture, which only/)
  const long = output(Object.fromEntries(Array.from({ length: 1000 }, (_, at) => [`${at}`, 1])))
  assert.ok(shown(long).length < 300)
})

test('what is no notebook is text, and a notebook has limits', () => {
  for (const text of ['', '{', '[]', 'null', '{"cells":1}', '"x"', '['.repeat(400_000)])
    assert.equal(renderNotebook(text, place), undefined)
  for (const cell of [
    null,
    1,
    {},
    { cell_type: 'code' },
    { cell_type: 'code', source: {}, outputs: [null, 1, { data: [] }] },
  ])
    assert.equal(typeof render({ cells: [cell] }), 'string')
  const cell = { cell_type: 'code', source: 'x', outputs: [] }
  const many = render({ cells: Array.from({ length: 1500 }, () => cell) }) ?? ''
  assert.equal(many.split('In [').length - 1, 1000)
  assert.match(many, /500 more cells are not shown/)
  const long = render({
    cells: [{ ...cell, outputs: [{ output_type: 'stream', text: '\u200b<'.repeat(500_000) }] }],
  })
  assert.ok((long?.length ?? 0) < 300_000)
})
