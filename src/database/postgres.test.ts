import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createStatementNames } from './postgres.ts'

test('a statement has a name from its third execution on', () => {
  const { nameOf } = createStatementNames()
  assert.deepEqual(['a', 'b', 'a', 'a', 'b', 'a', 'b'].map(nameOf), [
    undefined,
    undefined,
    undefined,
    'svc_0_0',
    undefined,
    'svc_0_0',
    'svc_0_1',
  ])
})

test('any number of different statements, and long ones, stay without names', () => {
  const { nameOf } = createStatementNames()
  for (let round = 0; round < 4; round++) {
    for (let n = 0; n < 2000; n++) assert.equal(nameOf(`select ${n}`), undefined)
  }
  for (let n = 0; n < 4; n++) assert.equal(nameOf('-'.repeat(10_000)), undefined)
})

test('connections keep a limited number of statements', () => {
  const { nameOf } = createStatementNames()
  const names = new Set<string | undefined>()
  for (let n = 0; n < 500; n++) {
    for (let use = 0; use < 4; use++) names.add(nameOf(`select ${n}`))
  }
  assert.equal(names.size, 201)
})
