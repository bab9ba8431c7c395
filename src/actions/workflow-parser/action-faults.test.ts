import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertFaults, type FaultCase } from '../../../test/support/faults.ts'
import { parseAction } from './reading/parse.ts'

test('faults of an action have lines and columns', () => {
  for (const [text, ...expected] of actions) {
    const { action, faults } = parseAction({ path: 'ci.yml', text })
    assert.equal(action, undefined, text)
    assertFaults(text, faults, expected)
  }
})

const actions: FaultCase[] = [
  ['name: x', '1:1 The action has no "runs".'],
  ['runs: {}', '1:1 "runs" has no "using".', '1:1 "runs" has no steps.'],
  ['runs: { using: node20 }', '1:1 "runs" has no "main".'],
  ['runs: { using: node24, main: /x.js }', '1:30 "main" is not a relative path.'],
  [
    'runs: { using: node24, main: x.js, steps: [], post-if: always() }',
    '1:36 "steps" belongs to a composite action.',
    '1:47 "post-if" has no "post".',
  ],
  [
    'runs: { using: node24, main: x.js, post: y.js, post-if: secrets.A }',
    '1:57 The context `secrets` cannot be used in a `pre-if` or `post-if`.',
  ],
  [
    'runs: { using: composite, main: x.js, steps: [{ run: x, shell: sh }] }',
    '1:27 "main" belongs to an action for Node.js, not to a composite one.',
  ],
  ['runs: { using: composite }', '1:1 "runs" has no steps.'],
  [
    'runs: { using: composite, steps: [{ run: x }] }',
    '1:37 A "run" step of an action requires "shell".',
  ],
  [
    'inputs: { a: { type: string } }\nruns: { using: composite, steps: [{ uses: ./x }] }',
    '1:16 Inputs of actions are strings.',
  ],
  [
    'outputs: { a: {} }\nruns: { using: composite, steps: [{ uses: ./x }] }',
    '1:12 The output "a" has no value.',
  ],
  [
    'runs: { using: composite, steps: [{ run: "${{ secrets.A }}", shell: bash }] }',
    "1:47 The context `secrets` cannot be used in an action's step.",
  ],
  [
    'steps: []\nruns: { using: composite, steps: [{ uses: ./x }] }',
    '1:1 "steps" is a key of "runs".',
  ],
]
