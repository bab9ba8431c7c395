import assert from 'node:assert/strict'
import { test } from 'node:test'
import { acceptableConnections } from './descriptors.ts'

test('descriptors are kept for the work of accepted connections', () => {
  const with_ = (soft: string) =>
    acceptableConnections(`Max processes  5 5 processes\nMax open files  ${soft}  524288  files\n`)
  assert.deepEqual(['1', '128', '256', '1024', 'unlimited'].map(with_), [
    1,
    1,
    25,
    179,
    Number.POSITIVE_INFINITY,
  ])
  assert.equal(acceptableConnections(''), Number.POSITIVE_INFINITY)
})
