// Tags: exhaustive
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { findText } from '#base/find-text.ts'
import { character, fuzzing } from '../../../../test/support/fuzz.ts'
import { toRounds } from '../../../../test/support/rounds.ts'
import type { Fault } from '../workflow.ts'
import { evaluateCondition, evaluateText, evaluateValue } from './evaluate.ts'
import { checkCondition, checkTemplate, MalformedExpressionError } from './parse-expression.ts'
import { ExpressionError, type Scope } from './scope.ts'
import { availability, type WorkflowKey } from './workflow-keys.ts'

const scope: Scope = {
  contexts: {
    github: { ref: 'refs/heads/main', event: { list: [1, { name: 'x' }, [null]], flag: true } },
    env: { A: '1', constructor: 'c' },
    needs: { build: { result: 'success', outputs: { a: '[1]' } } },
  },
  status: { success: true, failure: false, cancelled: false },
  hashFiles: (patterns) => patterns.join(),
}

const pieces = [
  ...['github', 'env', 'needs', 'secrets', 'matrix', 'jobs', 'foo', '__proto__', 'constructor'],
  ...['.ref', '.event', '.list', '.*', '[0]', '[*]', '.build.outputs.a', '.A', "['A']", '['],
  ...['contains(', 'format(', 'join(', 'toJSON(', 'fromJSON(', 'case(', 'hashFiles(', 'success('],
  ...['startsWith(', 'always()', 'failure()', 'constructor(', ')', ']', '(', ',', '!', '.'],
  ...['==', '!=', '<', '<=', '>', '>=', '&&', '||', '=', '&', '|', '*', '-', '+'],
  ...["'a'", "'{0}'", "'[1,{}]'", "'it''s'", "'", '"', '1', '0xf', '1e3', 'NaN', 'Infinity', '.5'],
  ...[
    'true',
    'false',
    'null',
    ' ',
    '\n',
    '\t',
    '\u00a0',
    '${{',
    '}}',
    '$',
    '{',
    '}',
    'ı',
    '\ud800',
  ],
]
const ofPieces = fc
  .array(fc.constantFrom(...pieces), { maxLength: 25 })
  .map((list) => list.join(''))
const braced = ofPieces.map((text) => `\${{ ${text} }}`)
const text = fc.oneof(
  ofPieces,
  braced,
  fc.tuple(ofPieces, braced, ofPieces).map((list) => list.join('')),
  fc.string({ unit: character }).map((content) => `\${{${content}}}`),
)
const workflowKey = fc.constantFrom(...(Object.keys(availability) as WorkflowKey[]))

const toTemplate = (content: string) => ({
  text: content,
  position: { file: 'ci.yml', line: 5, column: 3 },
})

test('any text is checked without an internal error, and evaluated or rejected with a message', () => {
  fc.assert(
    fc.property(text, workflowKey, (content, at) => {
      const template = toTemplate(content)
      for (const fault of [...checkTemplate(template, at), ...checkCondition(template, at)]) {
        const lines = content.split('\n')
        assert.ok(fault.line >= 5 && fault.line < 5 + lines.length, 'the line is in the text')
        const line = lines[fault.line - 5] ?? ''
        assert.ok(fault.column >= 3 && fault.column <= 3 + line.length, 'the column is in the line')
        assert.ok(fault.message.endsWith('.') && fault.instead !== '')
      }
      onlyFaults(() => evaluateText(template, scope))
      onlyFaults(() => evaluateValue(template, scope))
      onlyFaults(() => evaluateCondition(template, scope))
    }),
    { numRuns: toRounds(800), ...fuzzing() },
  )
})

test('checking and evaluating accept the same expressions', () => {
  fc.assert(
    fc.property(text, workflowKey, (content, at) => {
      const template = toTemplate(content)
      const faults = checkTemplate(template, at)
      const thrown = onlyFaults(() => evaluateText(template, scope))
      const isMalformed = thrown?.cause instanceof MalformedExpressionError
      assert.ok(!isMalformed || faults.length > 0, 'malformed expressions have faults')
      // What means nothing at one place may mean something at another.
      const isMisplaced = ({ message }: Fault) => /cannot be used|number of arguments/.test(message)
      assert.ok(
        thrown !== undefined || faults.every(isMisplaced),
        'faults are confirmed by evaluation',
      )
    }),
    { numRuns: toRounds(800), ...fuzzing() },
  )
})

test('any JSON passes through expressions unchanged', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
      const json = JSON.stringify(value)
      // Names that differ by case alone are one.
      fc.pre(!/"[^"]*":/.test(json) || json === json.toLowerCase())
      const of = { ...scope, contexts: { inputs: { json } } }
      const template = toTemplate('${{ fromJSON(inputs.json) }}')
      assert.equal(JSON.stringify(evaluateValue(template, of)), json)
    }),
    { numRuns: toRounds(400), ...fuzzing() },
  )
})

test('a text is found where `includes` finds it', () => {
  const letters = (maxLength: number) =>
    fc.array(fc.constantFrom('a', 'b'), { maxLength }).map((list) => list.join(''))
  fc.assert(
    fc.property(letters(6), letters(6), fc.nat({ max: 100 }), (unit, end, times) => {
      const searched = `${unit.repeat(100)}${end}${unit.repeat(times)}`
      const part = `${unit.repeat(times)}${end}`
      assert.equal(findText(searched, part), searched.indexOf(part))
      assert.equal(findText(`${part}x`, `${part}x`), 0)
    }),
    { numRuns: toRounds(200), ...fuzzing() },
  )
})

/** Runs what may throw an ExpressionFault and nothing else. */
function onlyFaults(work: () => unknown): ExpressionError | undefined {
  try {
    work()
    return undefined
  } catch (fault) {
    if (fault instanceof ExpressionError) return fault
    throw fault
  }
}
