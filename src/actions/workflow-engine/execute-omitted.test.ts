import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Engine, startEngine } from '../../../test/support/engine.ts'

let engine: Engine

before(async () => {
  engine = await startEngine()
})

after(() => engine[Symbol.asyncDispose]())

test('steps whose action does nothing here succeed and say so', async () => {
  const result = await engine.run({
    workflows: `
on: push
steps:
  - { id: cache, uses: Swatinem/rust-cache@v2 }
  - { uses: codecov/codecov-action@v5, if: false }
  - name: after
    run: echo "<\${{ steps.cache.outcome }} \${{ steps.cache.outputs.cache-hit }}>"
`,
  })
  assert.equal(result.conclusion, 'success', result.log)
  assert.match(result.outputOf('Run Swatinem/rust-cache'), /does nothing here: it only caches/)
  assert.equal(result.stepConclusions['Run codecov/codecov-action'], 'skipped')
  assert.equal(result.outputOf('after'), '<success >\n')
})

test('a step that installs programs fails unless the runner has them', async () => {
  const run = (tool: string) =>
    engine.run({
      workflows: `on: push\nsteps:\n  - uses: taiki-e/install-action@v2\n    with: { tool: "${tool}" }\n`,
    })
  const fine = await run('sh, tr@1.2')
  assert.equal(fine.conclusion, 'success', fine.log)
  const absent = await run('sh,no-such-tool')
  assert.equal(absent.conclusion, 'failure')
  assert.match(absent.log, /no-such-tool is not installed on the runner/)
})
