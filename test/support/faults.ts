import assert from 'node:assert/strict'
import type { Fault } from '../../src/workflow-parser/workflow.ts'

/** A file, and each `line:column message` that it must give, in order. */
export type FaultCase = [text: string, ...faults: string[]]

/** Asserts that a file has the expected faults. */
export function assertFaults(text: string, faults: Fault[], expected: string[]): void {
  const found = faults.map(({ line, column, message }) => `${line}:${column} ${message}`)
  assert.deepEqual(found, expected, text)
  for (const fault of faults) {
    assert.equal(fault.file, 'ci.yml')
    assert.match(fault.message, /^[A-Z"`=].*\.$/)
    assert.match(fault.instead, /^[A-Z].*/, fault.message)
  }
}
