// Tags: exhaustive
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { stringify } from 'yaml'
import { character, fuzzing } from '../../../../test/support/fuzz.ts'
import { toRounds } from '../../../../test/support/rounds.ts'
import { parseAction, parseWorkflow } from './parse.ts'

test('a mutated file is parsed or has faults within the file', () => {
  const change = fc.record({
    kind: fc.constantFrom('remove', 'repeat', 'insert', 'move'),
    from: fc.double({ min: 0, max: 1, noNaN: true }),
    to: fc.double({ min: 0, max: 1, noNaN: true }),
    length: fc.nat({ max: 40 }),
    piece: fc.constantFrom(...pieces),
  })
  const changes = fc.array(change, { minLength: 1, maxLength: 8 })
  const file = fc
    .tuple(fc.constantFrom(...goodFiles), changes)
    .map(([text, list]) => list.reduce(changed, text))
  fc.assert(fc.property(file, assertJudged), { numRuns: toRounds(500), ...fuzzing() })
})

test('texts of YAML tokens are parsed or have faults', () => {
  const text = fc.array(fc.constantFrom(...pieces), { maxLength: 60 }).map((list) => list.join(''))
  fc.assert(fc.property(text, assertJudged), { numRuns: toRounds(500), ...fuzzing() })
})

test('mappings of known keys with any values are parsed or have faults', () => {
  const value = fc.letrec((tie) => ({
    any: fc.oneof({ depthSize: 'small' }, tie('leaf'), tie('list'), tie('map')),
    leaf: fc.oneof(fc.constantFrom(...leaves), fc.jsonValue({ maxDepth: 1 })),
    list: fc.array(tie('any'), { maxLength: 4 }),
    map: fc.dictionary(fc.constantFrom(...keys), tie('any'), { maxKeys: 6 }),
  })).map
  const file = value.map((made) => stringify(made, { version: '1.2', aliasDuplicateObjects: true }))
  fc.assert(fc.property(file, assertJudged), { numRuns: toRounds(80), ...fuzzing() })
})

test('any text is parsed or has faults', () => {
  const text = fc.string({ unit: character, maxLength: 200 })
  fc.assert(fc.property(text, assertJudged), { numRuns: toRounds(150), ...fuzzing() })
})

function assertJudged(text: string): void {
  const file = { path: 'ci.yml', text }
  const { workflow, faults } = parseWorkflow(file)
  const ofAction = parseAction(file)
  assert.equal(workflow === undefined, faults.length > 0)
  assert.equal(ofAction.action === undefined, ofAction.faults.length > 0)
  const lines = text.split('\n')
  for (const { file: path, line, column, message, instead } of [...faults, ...ofAction.faults]) {
    assert.equal(path, 'ci.yml')
    assert.ok(line >= 1 && line <= lines.length, `line ${line}`)
    assert.ok(column >= 1 && column <= (lines[line - 1] ?? '').length + 1, `column ${column}`)
    assert.ok(message.endsWith('.') && instead !== '', message)
  }
  // It goes from the thread to the server.
  assert.deepEqual(structuredClone(workflow), workflow)
}

type Change = { kind: string; from: number; to: number; length: number; piece: string }

function changed(text: string, { kind, from, to, length, piece }: Change): string {
  const start = Math.floor(from * text.length)
  const part = text.slice(start, start + length)
  const rest = text.slice(0, start) + text.slice(start + length)
  if (kind === 'remove') return rest
  if (kind === 'insert') return text.slice(0, start) + piece + text.slice(start)
  const target = Math.floor(to * rest.length)
  if (kind === 'repeat') return text.slice(0, start) + part + text.slice(start)
  return rest.slice(0, target) + part + rest.slice(target)
}

const keys = [
  'name',
  'on',
  'push',
  'branches',
  'paths-ignore',
  'workflow_dispatch',
  'inputs',
  'type',
  'options',
  'default',
  'schedule',
  'cron',
  'env',
  'defaults',
  'run',
  'concurrency',
  'group',
  'permissions',
  'secrets',
  'jobs',
  'steps',
  'needs',
  'if',
  'runs-on',
  'outputs',
  'strategy',
  'matrix',
  'include',
  'exclude',
  'max-parallel',
  'timeout-minutes',
  'continue-on-error',
  'uses',
  'with',
  'id',
  'shell',
  'runs',
  'using',
  'constructor',
  '__proto__',
  '<<',
]

const leaves = [
  'push',
  'main',
  '!a**/b[0-9]+',
  '* * * * *',
  'composite',
  'choice',
  './a/b',
  'actions/checkout@v4',
  'a/b@v1',
  '${{ github.ref }}',
  '${{ matrix.a',
  'success() && x',
  "${{ fromJSON('[1]') }}",
  'read',
  true,
  null,
  -1,
  1e300,
]

const pieces = [
  ...keys.map((key) => `${key}: `),
  '\n',
  '\n  ',
  '\n    ',
  '\n- ',
  '\n  - ',
  ' ',
  '\t',
  '\r\n',
  '{',
  '}',
  '[',
  ']',
  ',',
  ': ',
  '? ',
  '- ',
  '"',
  "'",
  '|',
  '>-',
  '|9',
  '#',
  ' # x',
  '&a ',
  '*a',
  '!x ',
  '!!str ',
  '%YAML 1.1\n',
  '---\n',
  '...\n',
  '\\',
  '\\x',
  '\u0085',
  '\u2028',
  '\ufeff',
  'é',
  '😀',
  '${{ ',
  ' }}',
  'github.ref',
  '0x1f',
  '.inf',
  '1e999',
  '~',
  '@',
  '`',
]

const goodFiles = [
  'steps:\n  - run: make\n    if: success()\n  - uses: ./a\n    with: { b: 1 }\n',
  `name: CI
on:
  push: { branches: [main, '!x/**'], paths: ['**/*.ts'] }
  workflow_dispatch:
    inputs: { level: { type: choice, options: [a, b], default: b } }
  schedule: [{ cron: '0 0 * * 1', timezone: Europe/Berlin }]
env: &env { A: "1", B: 2 }
concurrency: { group: 'x-\${{ github.ref }}', cancel-in-progress: true }
jobs:
  build:
    strategy:
      matrix: { os: [a, b], n: [1, 2], include: [{ os: c }], exclude: [{ n: 1 }] }
    env: *env
    runs-on: \${{ matrix.os }}
    outputs: { v: "\${{ steps.v.outputs.v }}" }
    steps:
      - uses: actions/checkout@v4
        with: { fetch-depth: 1 }
      - id: v
        run: |
          echo "\${{ github.sha }}"
          echo v=1 >> "$GITHUB_OUTPUT"
        timeout-minutes: 5
  test:
    needs: [build]
    if: always() && needs.build.result == 'success'
    steps:
      - run: >-
          echo
          done
        continue-on-error: true
`,
  `name: Build
inputs: { a: { required: true }, b: { default: x } }
outputs: { c: { value: "\${{ steps.s.outputs.c }}" } }
runs:
  using: composite
  steps:
    - { id: s, run: 'echo \${{ inputs.a }}', shell: bash }
`,
]
