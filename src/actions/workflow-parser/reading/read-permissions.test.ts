import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseWorkflow } from './parse.ts'

function parsed(text: string) {
  const { workflow, faults } = parseWorkflow({ path: 'ci.yml', text })
  assert.deepEqual(faults, [], text)
  return workflow
}

const permissionsOf = (permissions: string) =>
  parsed(`permissions: ${permissions}\nsteps: [{ run: x }]`)?.permissions

test('permissions are read as on GitHub: what is not named is not granted', () => {
  const none = { contents: 'none', actions: 'none', idToken: false }
  assert.deepEqual(permissionsOf('{}'), none)
  assert.deepEqual(permissionsOf('{ contents: none, actions: none, id-token: none }'), none)
  assert.deepEqual(permissionsOf('{ contents: read }'), { ...none, contents: 'read' })
  assert.deepEqual(permissionsOf('{ actions: write }'), { ...none, actions: 'write' })
  assert.deepEqual(permissionsOf('{ id-token: write }'), { ...none, idToken: true })
  // Scopes without a counterpart grant nothing.
  assert.deepEqual(permissionsOf('{ pull-requests: write, packages: read, models: read }'), none)
  assert.deepEqual(permissionsOf('read-all'), { ...none, contents: 'read', actions: 'read' })
  const all = { contents: 'write', actions: 'write', idToken: true }
  assert.deepEqual(permissionsOf('write-all'), all)
})

test('a job has permissions of its own, or none', () => {
  const workflow = parsed(`
permissions: write-all
jobs:
  a: { steps: [{ run: x }] }
  b: { permissions: {}, steps: [{ run: x }] }
`)
  assert.equal(workflow?.jobs[0]?.permissions, undefined)
  assert.deepEqual(workflow?.jobs[1]?.permissions, {
    contents: 'none',
    actions: 'none',
    idToken: false,
  })
  assert.equal(parsed('steps: [{ run: x }]')?.permissions, undefined)
})

test('other values are faults that say what to write', () => {
  for (const value of [
    '',
    'read',
    '[contents]',
    'true',
    'toString',
    '{ contents: }',
    '{ contents: [read] }',
  ]) {
    const { faults } = parseWorkflow({
      path: 'ci.yml',
      text: `permissions: ${value}\nsteps: [{ run: x }]`,
    })
    assert.equal(faults.length, 1, value)
    assert.match(faults[0]?.instead ?? '', /"read-all"|"read", "write" or "none"/)
  }
})
