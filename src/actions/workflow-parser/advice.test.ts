import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseAction, parseWorkflow } from './reading/parse.ts'

test('a mistyped key gets the correct one as advice', () => {
  const adviceOn = (text: string) =>
    parseWorkflow({ path: 'ci.yml', text }).faults.map(({ instead }) => instead)
  assert.deepEqual(adviceOn('step: [{ run: x }]'), ['Write "steps".'])
  assert.deepEqual(adviceOn('steps: [{ run: x, timeoutMinutes: 1 }]'), ['Write "timeout-minutes".'])
  assert.deepEqual(adviceOn('jobs: { a: { neds: [b], steps: [{ run: x }] } }'), ['Write "needs".'])
  assert.deepEqual(adviceOn('on: pussh\nsteps: [{ run: x }]'), ['Write "push".'])
})

test('an accidental tag or alias gets its correction as advice', () => {
  const adviceOn = (text: string) =>
    parseWorkflow({ path: 'ci.yml', text }).faults.map(({ instead }) => instead)
  const step = (condition: string) => `steps:\n  - run: x\n    if: ${condition}\n`
  assert.deepEqual(adviceOn(step('!cancelled()')), ['Write if: ${{ !cancelled() }}.'])
  assert.deepEqual(adviceOn(step('!cancelled() && true # yes')), [
    'Write if: ${{ !cancelled() && true }}.',
  ])
  assert.deepEqual(adviceOn('steps: [{ run: x, if: !failure() }]'), [
    'Write if: "${{ !failure() }}".',
  ])
  const on = (branches: string) => `on: { push: { branches: ${branches} } }\nsteps: [{ run: x }]`
  assert.deepEqual(adviceOn(on('[*]')), ["Put it in quotes: '*'."])
  assert.deepEqual(adviceOn(on('[main, **]')), ["Put it in quotes: '**'."])
  assert.deepEqual(adviceOn(on('[*/docs]')), ["Put it in quotes: '*/docs'."])
  for (const nothing of ['', '{}', '[]', '""']) {
    const [advice = '', ...more] = adviceOn(`on: ${nothing}\nsteps: [{ run: x }]`)
    assert.match(advice, /^Write "push", "pull_request", "workflow_dispatch"/)
    assert.deepEqual(more, [])
  }
})

test('the advice for a context that an action lacks is to pass it as an input', () => {
  const text = (used: string) =>
    `runs: { using: composite, steps: [{ shell: sh, run: "\${{ ${used} }}" }] }`
  const adviceOn = (used: string) =>
    parseAction({ path: 'a/action.yml', text: text(used) }).faults.map(({ instead }) => instead)
  for (const used of ['needs.a', 'secrets.A', 'vars.A']) {
    const [advice = '', ...more] = adviceOn(used)
    assert.match(advice, /^Pass it to the action as an input.* use inputs\.NAME\.$/)
    assert.deepEqual(more, [])
  }
  assert.deepEqual(adviceOn('success()'), [
    "It can be used in the `if` of an action's step and a `pre-if` or `post-if`.",
  ])
})
