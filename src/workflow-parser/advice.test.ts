import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseAction, parseWorkflow } from './parse.ts'

test('a mistyped key gets the correct one as advice', () => {
  const told = (text: string) =>
    parseWorkflow({ path: 'ci.yml', text }).faults.map(({ instead }) => instead)
  assert.deepEqual(told('step: [{ run: x }]'), ['Write "steps".'])
  assert.deepEqual(told('steps: [{ run: x, timeoutMinutes: 1 }]'), ['Write "timeout-minutes".'])
  assert.deepEqual(told('jobs: { a: { neds: [b], steps: [{ run: x }] } }'), ['Write "needs".'])
  assert.deepEqual(told('on: pussh\nsteps: [{ run: x }]'), ['Write "push".'])
})

test('an accidental tag or alias gets its correction as advice', () => {
  const told = (text: string) =>
    parseWorkflow({ path: 'ci.yml', text }).faults.map(({ instead }) => instead)
  const step = (condition: string) => `steps:\n  - run: x\n    if: ${condition}\n`
  assert.deepEqual(told(step('!cancelled()')), ['Write if: ${{ !cancelled() }}.'])
  assert.deepEqual(told(step('!cancelled() && true # yes')), [
    'Write if: ${{ !cancelled() && true }}.',
  ])
  assert.deepEqual(told('steps: [{ run: x, if: !failure() }]'), ['Write if: "${{ !failure() }}".'])
  const on = (branches: string) => `on: { push: { branches: ${branches} } }\nsteps: [{ run: x }]`
  assert.deepEqual(told(on('[*]')), ["Put it in quotes: '*'."])
  assert.deepEqual(told(on('[main, **]')), ["Put it in quotes: '**'."])
  assert.deepEqual(told(on('[*/docs]')), ["Put it in quotes: '*/docs'."])
  for (const nothing of ['', '{}', '[]', '""']) {
    const [advice = '', ...more] = told(`on: ${nothing}\nsteps: [{ run: x }]`)
    assert.match(advice, /^Write "push", "workflow_dispatch", "schedule"/)
    assert.deepEqual(more, [])
  }
})

test('the advice for a context that an action lacks is to pass it as an input', () => {
  const text = (used: string) =>
    `runs: { using: composite, steps: [{ shell: sh, run: "\${{ ${used} }}" }] }`
  const told = (used: string) =>
    parseAction({ path: 'a/action.yml', text: text(used) }).faults.map(({ instead }) => instead)
  for (const used of ['needs.a', 'secrets.A', 'vars.A']) {
    const [advice = '', ...more] = told(used)
    assert.match(advice, /^Pass it to the action as an input.* use inputs\.NAME\.$/)
    assert.deepEqual(more, [])
  }
  assert.deepEqual(told('success()'), ["It can be used in the `if` of an action's step."])
})
