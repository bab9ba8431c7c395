import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toFittedTable } from './display.ts'

test('the widest column of a table is cut to the width of the terminal', () => {
  const rows = [{ name: 'a'.repeat(30), owner: 'ada' }]
  const table = toFittedTable({ NAME: 'name', OWNER: 'owner' }, rows, 20)
  assert.equal(table, `${'NAME'.padEnd(13)}  OWNER\n${'a'.repeat(12)}…  ada\n`)
})

test('a table may have very many rows', () => {
  const rows = Array.from({ length: 200_000 }, (_, index) => ({ name: String(index) }))
  const lines = toFittedTable({ NAME: 'name' }, rows, 80).split('\n')
  assert.equal(lines.at(-2), '199999')
})
