import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findProcess, processIds } from './processes.ts'

test('a workspace that was removed meanwhile has no processes', () => {
  assert.deepEqual(processIds('/proc/0/gone'), [])
  assert.equal(findProcess(1, '/proc/0/gone'), undefined)
  assert.ok(processIds().includes(process.pid))
})
