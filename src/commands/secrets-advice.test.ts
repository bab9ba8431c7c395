import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseWorkflow } from '../workflow-parser/parse.ts'
import { secretsAdvice } from './secrets-advice.ts'

test('a workflow without a list of secrets gets the list that its expressions need', () => {
  const [line = ''] = advise(`
jobs:
  a:
    steps:
      - run: echo \${{ secrets.TOKEN }} \${{ secrets['KEY'] }} \${{ secrets.TOKEN }}
`)
  assert.match(line, /^ci\.yml: .*"secrets: \[KEY, TOKEN\]"/)
})

test('a workflow with a list gets no advice', () => {
  assert.deepEqual(advise('secrets: [TOKEN]\njobs: { a: { steps: [{ run: x }] } }\n'), [])
})

function advise(text: string): string[] {
  const { workflow, faults } = parseWorkflow({ path: 'ci.yml', text })
  assert.ok(workflow, JSON.stringify(faults))
  return secretsAdvice([workflow], [{ path: 'ci.yml', text }])
}
