import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { limits } from '../../bench/rows.ts'

const docs = readFileSync(new URL('../../docs/performance.md', import.meta.url), 'utf8')
const sections = new Map(
  docs.split(/^## /m).map((section) => [section.split('\n', 1)[0] ?? '', section]),
)
const rows = Object.keys(limits).map((name) => name.split(': ') as [part: string, row: string])
const parts = [...new Set(rows.map(([part]) => part))]

test('each part of the bench is documented, in order', () => {
  const headings = [...sections.keys()].filter((heading) => /^[a-z]+$/.test(heading))
  assert.deepEqual(headings, parts)
})

test('each row of the bench is documented in the section of its part', () => {
  assert.ok(rows.length > 40)
  for (const [part, row] of rows) {
    const text = sections.get(part)?.replace(/\s+/g, ' ')
    assert.ok(text?.includes(`\`${row}\``), `${part}: ${row}`)
  }
})

test('a target is stricter than the bound of its row', () => {
  for (const [name, row] of Object.entries(limits)) {
    if (!('target' in row)) continue
    const { bound, target } = row
    assert.deepEqual([target.is, target.of], [bound.is, bound.of], name)
    const isStricter =
      target.is === 'at most' ? target.value < bound.value : target.value > bound.value
    assert.ok(isStricter, name)
  }
})
