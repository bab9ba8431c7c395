import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertFaults, type FaultCase } from '../../../test/support/faults.ts'
import { parseWorkflow } from './reading/parse.ts'

const invalid: FaultCase[] = [
  [
    'jobs:\n  a:\n    uses: a/b/.github/workflows/x.yml@v1\n    steps: [{ run: x }]',
    '3:11 Workflows of other repositories, such as "a/b/.github/workflows/x.yml@v1", cannot be called.',
    '4:5 A job with "uses" has no "steps".',
  ],
  [
    'jobs:\n  a:\n    uses: ./workflows/x.yml\n    runs-on: ubuntu-latest',
    '3:11 "./workflows/x.yml" is not a workflow of this repository.',
    '4:5 A job with "uses" has no "runs-on".',
  ],
  [
    'jobs:\n  a:\n    uses: ./.github/workflows/../x.yml',
    '3:11 "./.github/workflows/../x.yml" is not a workflow of this repository.',
  ],
  [
    'jobs:\n  a:\n    uses: ./.github/workflows/x.yml\n    with: { a: [1] }\n    secrets: [A]',
    '4:16 The input "a" is a list.',
    '5:14 "secrets" is a list, not a mapping.',
  ],
  [
    'jobs:\n  a:\n    with: { a: 1 }\n    secrets: inherit\n    steps: [{ run: x }]',
    '3:5 "with" belongs to a job or a step with "uses".',
    '4:5 "secrets" belongs to a job with "uses".',
  ],
  [
    'on: { workflow_call: { inputs: { a: { default: 1 } } } }\nsteps: [{ run: x }]',
    '1:34 The input "a" has no "type".',
  ],
  [
    'on: { workflow_call: { inputs: { a: { type: choice } } } }\nsteps: [{ run: x }]',
    '1:45 "choice" is not a valid input type of "workflow_call".',
  ],
  [
    'on: { workflow_call: { outputs: { a: { value: "${{ needs.a }}" } } } }\nsteps: [{ run: x }]',
    '1:52 The context `needs` cannot be used in an output of `workflow_call`.',
  ],
]

test('faults of calls, and of what is called, have lines and columns', () => {
  for (const [text, ...expected] of invalid) {
    const { faults } = parseWorkflow({ path: 'ci.yml', text })
    assertFaults(text, faults, expected)
  }
})

test('a call and its counterpart are read', () => {
  const text = `
on:
  workflow_call:
    inputs: { level: { type: number, default: "\${{ github.run_number }}" }, name: { type: string } }
    outputs: { out: { value: "\${{ jobs.a.outputs.x }}" } }
    secrets: { KEY: { required: true }, OTHER: }
jobs:
  a: { uses: ./.svc/workflows/b.yml, with: { n: 1, t: "\${{ inputs.name }}" }, secrets: inherit }
`
  const { workflow, faults } = parseWorkflow({ path: 'ci.yml', text })
  assert.deepEqual(faults, [])
  const { inputs = {}, secrets } = workflow?.on.call ?? {}
  assert.deepEqual(
    Object.entries(inputs).map(([name, { type, required }]) => [name, type, required]),
    [
      ['level', 'number', false],
      ['name', 'string', false],
    ],
  )
  assert.deepEqual(secrets, { KEY: { required: true }, OTHER: { required: false } })
  const [job] = workflow?.jobs ?? []
  assert.deepEqual(job?.steps, [])
  assert.deepEqual([job?.call?.path, job?.call?.with.n], ['.svc/workflows/b.yml', 1])
  assert.equal(job?.call?.secrets, 'inherit')
})
