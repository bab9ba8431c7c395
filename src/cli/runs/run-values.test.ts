import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { parseWorkflow } from '#actions/workflow-parser/reading/parse.ts'
import { temporaryFolder } from '../../../test/support/git.ts'
import { toInputs, toSecrets } from './run-values.ts'

const { workflow } = parseWorkflow({
  path: 'ci.yml',
  text: `
on:
  workflow_dispatch:
    inputs:
      target: { required: true }
      dry: { type: boolean, default: true }
jobs: { a: { steps: [{ run: x }] } }
`,
})
assert.ok(workflow)

test('inputs are converted to their types, with defaults', () => {
  assert.deepEqual(toInputs(['target=a=b', 'dry=false'], [workflow]), { target: 'a=b', dry: false })
  assert.deepEqual(toInputs(['target=x'], [workflow]).dry, true)
})

test('an unknown input, and a word that is not a pair, are usage errors', () => {
  assert.throws(() => toInputs(['other=1'], [workflow]), /--input other: no workflow/)
  assert.throws(() => toInputs(['target'], [workflow]), /the form is name=value/)
  assert.throws(() => toInputs(['=x'], [workflow]), /the form is name=value/)
})

test('secrets come from a file and from variables, which take precedence', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'secrets')
  await writeFile(file, '# comment\n\nexport ONE="a b"\r\nTWO=x=y\nTHREE=from file\n')
  const secrets = await toSecrets({ names: ['THREE'], file, environment: { THREE: 'variable' } })
  assert.deepEqual(secrets, { ONE: 'a b', TWO: 'x=y', THREE: 'variable' })
})

test('a malformed line of a file of secrets is not printed', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'secrets')
  await writeFile(file, 'hunter2\n')
  const reading = toSecrets({ names: [], file, environment: {} })
  await assert.rejects(reading, ({ message }: Error) => !message.includes('hunter2'))
  const missing = toSecrets({ names: ['NONE'], file: undefined, environment: {} })
  await assert.rejects(missing, /--secret NONE: there is no environment variable/)
})
