import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Engine, startEngine } from '../../../test/support/engine.ts'

let engine: Engine

before(async () => {
  engine = await startEngine()
})

after(() => engine[Symbol.asyncDispose]())

test('a step runs, and its output and end are reported in order', async () => {
  const result = await engine.run({
    workflows: 'steps:\n  - name: Hello\n    run: echo "hello $SVC_BRANCH"\n',
  })
  assert.equal(result.conclusion, 'success', result.log)
  assert.deepEqual(result.stepConclusions, { Hello: 'success' })
  assert.equal(result.outputOf('Hello'), 'hello main\n')
  const kinds = result.entries.map(({ kind }) => kind)
  assert.deepEqual(kinds, [
    'isolation',
    'job-planned',
    'step-planned',
    'job-started',
    'step-started',
    'output',
    'step-ended',
    'job-ended',
    'run-ended',
  ])
})

test('outputs are passed between steps and jobs', async () => {
  const result = await engine.run({
    workflows: `
on: push
jobs:
  publish:
    needs: [build]
    runs-on: ubuntu-latest
    steps:
      - run: echo "got \${{ needs.build.outputs.version }} from \${{ needs.build.result }}"
  build:
    runs-on: ubuntu-latest
    outputs:
      version: \${{ steps.v.outputs.version }}-\${{ steps.v.outcome }}
    steps:
      - id: v
        run: echo version=1.2 >> "$GITHUB_OUTPUT"
`,
  })
  assert.equal(result.conclusion, 'success', result.log)
  assert.match(result.log, /got 1.2-success from success/)
})
