import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'

const bench = read('../bench/bench.ts')
const docs = read('../docs/performance.md')

test('each part of the bench is explained, in its order, and can be chosen', () => {
  const [, list = ''] = /const parts = \[([^\]]+)\]/.exec(bench) ?? []
  const parts = [...list.matchAll(/'([a-z]+)'/g)].map(([, part]) => part)
  assert.ok(parts.length > 0)
  const headings = [...docs.matchAll(/^## ([a-z]+)$/gm)].map(([, heading]) => heading)
  assert.deepEqual(headings, parts)
  assert.ok(bench.includes(`--only ${parts.join('|')}]`))
})

test('each row of what is measured on the wire is explained', () => {
  const sources = ['wire-part', 'storm-part'].map((name) => read(`../bench/${name}.ts`)).join('')
  const names = [
    ...sources.matchAll(/['`]((?:a|begin|listing)[a-z]* (?:of|clone|shallow)[^'`$]*)/g),
  ]
  const rows = new Set(names.map(([, name = '']) => name.replace(/, connections.*$/, '').trim()))
  assert.ok(rows.size >= 5)
  for (const row of rows) assert.ok(docs.includes(`\`${row}`), row)
})

function read(path: string): string {
  return readFileSync(new URL(path, import.meta.url), 'utf8')
}
