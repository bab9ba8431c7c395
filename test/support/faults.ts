import assert from 'node:assert/strict'
import { parseWorkflow } from '#actions/workflow-parser/reading/parse.ts'
import { checkRunnable } from '#actions/workflow-parser/runnable.ts'
import { sortNotes } from '#actions/workflow-parser/source/fault-list.ts'
import type { Fault } from '#actions/workflow-parser/workflow.ts'

/** A file, and each `line:column message` that it must give, in order. */
export type FaultCase = [text: string, ...faults: string[]]

/** What the check says of one workflow file that uses no others. */
export function checkAlone(text: string) {
  const { workflow, faults, notes } = parseWorkflow({ path: 'ci.yml', text })
  if (!workflow) return { workflow, faults, notes }
  const runnable = checkRunnable([workflow], new Map([[workflow.path, workflow]]), new Map())
  return {
    workflow,
    faults: sortNotes([...faults, ...runnable.faults]),
    notes: sortNotes([...notes, ...runnable.notes]),
  }
}

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
