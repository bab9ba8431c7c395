// Tags: exhaustive
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import fc from 'fast-check'
import { type Engine, startEngine } from '../../../test/support/engine.ts'
import { secretValues, shownPart } from '../../../test/support/secret-parts.ts'

let engine: Engine

before(async () => {
  engine = await startEngine()
})

after(() => engine[Symbol.asyncDispose]())

/** Every place from which a run takes a text of its own; the secret is after as many characters as each variable has. */
const workflows = `
name: places
jobs:
  names:
    continue-on-error: true
    strategy:
      matrix: { value: ["\${{ inputs.near }}", "\${{ inputs.far }}"], more: ["\${{ inputs.near }}"] }
    steps:
      - run: ": \${{ secrets.NEAR }}"
        continue-on-error: true
      - run: |

          : \${{ inputs.near }} \${{ secrets.KEY }}
        continue-on-error: true
      - { name: "\${{ inputs.far }} \${{ secrets.FAR }}", run: "true" }
      - uses: ./outer
        with: { text: "\${{ secrets.NEAR }}" }
        continue-on-error: true
  titled:
    name: "\${{ inputs.far }} \${{ inputs.near }}"
    runs-on: "\${{ inputs.near }}"
    steps: [{ run: "true" }]
  files:
    continue-on-error: true
    steps:
      - { continue-on-error: true, run: 'printf "%s\\n" "$NEAR" >> "$GITHUB_ENV"' }
      - { continue-on-error: true, run: 'printf "A<<%s\\n1\\n" "$NEAR" >> "$GITHUB_ENV"' }
      - { continue-on-error: true, run: 'printf "%s\\n" "$NEAR" >> "$GITHUB_OUTPUT"' }
      - { continue-on-error: true, run: 'printf "A<<%s\\n1\\n" "$NEAR" >> "$GITHUB_OUTPUT"' }
      - { continue-on-error: true, run: 'printf "%s\\n" "$FAR" >> "$GITHUB_STEP_SUMMARY"' }
      - { continue-on-error: true, run: 'printf "%s\\n" "$NEAR" >> "$GITHUB_PATH"' }
      - { continue-on-error: true, run: "true", working-directory: "\${{ secrets.NEAR }}" }
      - { continue-on-error: true, run: "true", working-directory: "\${{ secrets.FAR }}/\${{ secrets.FAR }}" }
      - { continue-on-error: true, run: "true", shell: "\${{ secrets.NEAR }}" }
      - { continue-on-error: true, run: "true", timeout-minutes: "\${{ secrets.NEAR }}" }
  output:
    outputs: { near: "\${{ steps.a.outputs.a }}" }
    steps:
      - { run: 'head -c "$EDGE" /dev/zero | tr "\\0" "~"; printf "%s\\n" "$NEAR" "$FAR" "$NEAR"' }
      - { id: a, run: 'printf "a<<E~\\n%s\\nE~\\n" "$NEAR" >> "$GITHUB_OUTPUT"' }
      - { run: 'printf "::add-mask::%s" "$NEAR"; head -c "$EDGE" /dev/zero | tr "\\0" "~"' }
`

const actions = {
  outer: `
name: Outer
inputs: { text: {} }
runs:
  using: composite
  steps: [{ shell: bash, run: ": \${{ inputs.text }}" }]
`,
}

test('no part of a secret appears in a report, wherever texts are truncated', async () => {
  await fc.assert(
    fc.asyncProperty(
      secretValues,
      fc.integer({ min: 0, max: 110 }),
      fc.integer({ min: 3900, max: 4020 }),
      fc.integer({ min: 65_400, max: 65_540 }),
      async (secret, near, far, edge) => {
        const texts = { near: `${'~'.repeat(near)}${secret}`, far: `${'~'.repeat(far)}${secret}` }
        const result = await engine.run({
          plan: {
            secrets: { KEY: secret, NEAR: texts.near, FAR: texts.far, EDGE: `${edge}` },
            inputs: texts,
            limits: { runTimeoutMs: 120_000, stepTimeoutMs: 60_000, outputMaxBytes: 70_000 },
          },
          workflows,
          actions,
        })
        assert.ok(result.steps.length > 15, result.log)
        const said = [result.log, ...result.entries.flatMap(textsOf)].join('\n')
        assert.equal(shownPart(said, secret), undefined, said)
      },
    ),
    { numRuns: 5, endOnFailure: true },
  )
})

/** All texts of an entry, as they are and as JSON has them. */
function textsOf(entry: object): string[] {
  const texts: string[] = [JSON.stringify(entry)]
  JSON.stringify(entry, (_, value) => {
    if (typeof value === 'string') texts.push(value)
    return value
  })
  return texts
}

test('a value that a step masks is masked completely, however long its line is', async () => {
  const value = Array.from({ length: 30_000 }, (_, at) => `v${at}`).join('-')
  const result = await engine.run({
    files: { value },
    workflows: `
steps:
  - name: mask
    run: |
      printf '::add-mask::%s\\n' "$(cat value)"
      cat value
`,
  })
  assert.equal(result.conclusion, 'success', result.log)
  assert.equal(result.outputOf('mask'), '::add-mask::***\n***\n')
})
