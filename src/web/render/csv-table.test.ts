import assert from 'node:assert/strict'
import { test } from 'node:test'
import { renderTable } from './csv-table.ts'

const cellsOf = (html = '') =>
  [...html.matchAll(/<tr id="L(\d+)">.*?<\/tr>/gs)].map(([row, line]) => [
    Number(line),
    ...[...row.matchAll(/<t[dh](?: scope="col")?>(.*?)<\/t[dh]>/gs)].map(([, cell]) => cell),
  ])

test('separated values are a table, whose rows have the numbers of their lines', () => {
  const table = renderTable('a,"b ""c"""\r\n1,"two\nlines, <b>"\n,\n3', 'x.csv')
  assert.deepEqual(cellsOf(table), [
    [1, 'a', 'b &quot;c&quot;'],
    [2, '1', 'two\nlines, &lt;b&gt;'],
    [4, '', ''],
    [5, '3'],
  ])
  assert.deepEqual(cellsOf(renderTable('a\tb,c\n', 'x.TSV')), [[1, 'a', 'b,c']])
  assert.deepEqual(cellsOf(renderTable('a;b\n1,5;2\n', 'x.csv')), [
    [1, 'a', 'b'],
    [2, '1,5', '2'],
  ])
})

test('a table has limits, and one with a quote that does not end is text', () => {
  assert.equal(renderTable('a,"b\nc', 'x.csv'), undefined)
  const long = renderTable('a\n'.repeat(20_000), 'x.csv')
  assert.equal(cellsOf(long).length, 5000)
  assert.match(long ?? '', /Only the first 5000 rows are shown/)
  for (const hostile of [',', '"', '""', '",', '\u200b,', ';', '<']) {
    const text = hostile.repeat(256 * 1024)
    assert.ok((renderTable(text, 'x.csv')?.length ?? 0) <= 4 * 1024 * 1024, hostile)
  }
})
