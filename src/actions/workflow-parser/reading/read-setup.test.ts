import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatFaults, formatNotes } from '../source/fault-list.ts'
import { parseWorkflow } from './parse.ts'

const check = (step: string) => parseWorkflow({ path: 'ci.yml', text: `steps:\n  - ${step}\n` })

test('an unknown input of an action that sets up a tool is noted, a missing one is a fault', () => {
  const mistyped = check('{ uses: actions/setup-node@v4, with: { node_version: 20 } }')
  assert.deepEqual(mistyped.faults, [])
  assert.deepEqual(formatNotes(mistyped.notes), [
    'ci.yml:2:44: note: The action actions/setup-node has no input "node_version". Did you mean "node-version"?',
  ])
  const missing = check('{ uses: actions/setup-java@v4, with: { java-version: 21 } }')
  assert.deepEqual(formatFaults(missing.faults), [
    'ci.yml:2:13: The action actions/setup-java requires the input "distribution". Instead: Add "distribution" in "with".',
  ])
})

test('an input without effect on which steps may rely is noted, unless it is off', () => {
  const notesOf = (cache: string) =>
    formatNotes(check(`{ uses: actions/setup-node@v4, with: { cache: ${cache} } }`).notes)
  assert.deepEqual(notesOf('npm'), [
    'ci.yml:2:44: note: "cache" has no effect: this step caches nothing; use actions/cache.',
  ])
  for (const off of ['false', '""', '"${{ matrix.cache }}"']) assert.deepEqual(notesOf(off), [])
})

test('the name of the action and of its inputs may be in any case', () => {
  const { workflow, faults } = check('{ uses: Actions/Setup-Node, with: { Node-Version: 20 } }')
  assert.deepEqual(faults, [])
  const [step] = workflow?.jobs[0]?.steps ?? []
  assert.ok(step?.kind === 'setup')
  assert.deepEqual([step.action, step.ref], ['actions/setup-node', ''])
  assert.deepEqual(Object.keys(step.with), ['node-version'])
})
