import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatRequirement, parseRequirement } from './requirement-text.ts'

test('a line of a form is a workflow file or a status, and reads as it was written', () => {
  for (const [text, value] of [
    ['ci.yml', 'ci.yml'],
    ['ci.yml from refs/heads/main', { workflow: 'ci.yml', from: 'refs/heads/main' }],
    ['status: ci/build', { status: 'ci/build' }],
    ['status: ci/build by ci-bot', { status: 'ci/build', by: ['ci-bot'] }],
    ['status: put by hand by ada, grace', { status: 'put by hand', by: ['ada', 'grace'] }],
    ['status: a "b" 💥', { status: 'a "b" 💥' }],
  ] as const) {
    assert.deepEqual(parseRequirement(text), value)
    assert.equal(formatRequirement(parseRequirement(text)), text)
  }
  assert.deepEqual(parseRequirement('  status:build by a ,b '), { status: 'build', by: ['a', 'b'] })
  assert.deepEqual(parseRequirement('status:'), { status: '' })
})
