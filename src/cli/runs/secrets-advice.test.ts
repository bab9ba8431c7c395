import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseWorkflow } from '#actions/workflow-parser/reading/parse.ts'
import { secretsAdvice } from './check-workflows.ts'

test('a workflow that inherits all secrets gets the list that its expressions need', () => {
  const [line = ''] = advise(`
secrets: inherit
jobs:
  a:
    steps:
      - run: echo \${{ secrets.TOKEN }} \${{ secrets['KEY'] }} \${{ secrets.TOKEN }}
`)
  assert.match(line, /^ci\.yml: .*"secrets: \[KEY, TOKEN\]"/)
})

test('a workflow with a list, or without any, gets no advice', () => {
  for (const list of ['secrets: [TOKEN]\n', ''])
    assert.deepEqual(advise(`${list}jobs: { a: { steps: [{ run: x }] } }\n`), [])
})

function advise(text: string): string[] {
  const { workflow, faults } = parseWorkflow({ path: 'ci.yml', text })
  assert.ok(workflow, JSON.stringify(faults))
  return secretsAdvice([workflow], [{ path: 'ci.yml', text }])
}
