import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Engine, startEngine } from '../../../test/support/engine.ts'

let engine: Engine

before(async () => {
  engine = await startEngine()
})

after(() => engine[Symbol.asyncDispose]())

test('steps are named by the values at their start, in an action by its inputs', async () => {
  const result = await engine.run({
    plan: { inputs: { who: 'of the workflow' }, secrets: { KEY: 'hush-hush' } },
    actions: {
      greet: `
name: Greet
inputs: { who: {} }
runs:
  using: composite
  steps:
    - { name: "greet \${{ inputs.who }}", shell: bash, run: "true" }
    - { shell: bash, run: "echo \${{ inputs.who }}" }
    - { name: "never \${{ inputs.who }}", if: failure(), shell: bash, run: "true" }
`,
    },
    workflows: `
steps:
  - { name: "for \${{ inputs.who }}", run: 'echo "V=1.2" >> "$GITHUB_ENV"' }
  - { name: "release \${{ env.V }} \${{ env.OWN }}", env: { OWN: own }, run: "true" }
  - { name: "\${{ env.NONE }}", run: "echo \${{ env.V }}" }
  - { name: "use \${{ secrets.KEY }} \${{ env.V }}", uses: ./greet, with: { who: "Ada \${{ env.V }}" } }
`,
  })
  assert.equal(result.conclusion, 'success', result.log)
  assert.deepEqual(Object.keys(result.stepConclusions), [
    'for of the workflow',
    'release 1.2 own',
    'Run echo 1.2',
    'use *** 1.2 / greet Ada 1.2',
    'use *** 1.2 / Run echo Ada 1.2',
    'use ${{ secrets.KEY }} ${{ env.V }} / never ${{ inputs.who }}',
  ])
  assert.match(result.log, /› use \*\*\* 1\.2 \/ greet Ada 1\.2\n/)
})
