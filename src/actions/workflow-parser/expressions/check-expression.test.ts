import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkCondition, checkTemplate } from './parse-expression.ts'
import type { WorkflowKey } from './workflow-keys.ts'

const toTemplate = (text: string) => ({ text, position: { file: 'ci.yml', line: 10, column: 5 } })

function faultOf(text: string, workflowKey: WorkflowKey = 'step.run') {
  const [fault] = checkTemplate(toTemplate(text), workflowKey)
  return fault
}

test('valid texts and expressions are accepted', () => {
  const good = [
    '',
    'no expression, } and }} and $ {{ }}',
    '${{ github.ref }}',
    "a ${{ 'it''s }} in quotes' }} b ${{ github['event'].commits[0].*.id }}",
    "${{ format('{0}', hashFiles('**/package-lock.json', 'b')) }}",
    '${{ TOJSON(Secrets) && !contains(env.A, null) || fromJSON(steps.a-b.outputs.c_d) >= -1.5e3 }}',
    "${{ case(github.ref == 'refs/heads/main', 0xff, NaN) }}",
    "${{\n  github.ref\n  != 'a\nb'\n}}",
  ]
  for (const text of good) assert.deepEqual(checkTemplate(toTemplate(text), 'step.run'), [], text)
})

test('a fault names its line and column in the file', () => {
  const at = (text: string) => {
    const { line, column } = faultOf(text) ?? {}
    return [line, column]
  }
  assert.deepEqual(at('${{ foo }}'), [10, 9])
  assert.deepEqual(at('echo a\n  echo ${{ foo }}\n'), [11, 16])
  assert.deepEqual(at("${{ 'a\nb' == foo }}"), [11, 11])
  assert.deepEqual(at('${{ github.ref ==\n  }}'), [10, 20])
  assert.deepEqual(at('a ${{ github.ref'), [10, 7])
  assert.deepEqual(at('${{ github.ref = 1 }}'), [10, 20])
})

test('each expression of a text is checked, up to 20 of them', () => {
  const faults = checkTemplate(toTemplate('${{ foo }} ${{ github }} ${{ bar() }}'), 'step.run')
  assert.deepEqual(
    faults.map(({ message }) => message),
    ['Unknown context `foo`.', 'Unknown function `bar`.'],
  )
  assert.equal(checkTemplate(toTemplate('${{ foo }}'.repeat(1000)), 'step.run').length, 20)
})

test('invalid expressions have a message and advice', () => {
  const cases: [text: string, message: RegExp, instead: RegExp][] = [
    ['${{ a', /`\$\{\{` is not closed/, /Close it with `}}`/],
    ["${{ 'a }}", /`\$\{\{` is not closed/, /Close it/],
    ['${{ }}', /is empty/, /Write a value/],
    [`\${{ ${' '.repeat(21_000)} }}`, /longer than 21000 characters/, /Split it/],
    [`\${{ ${'('.repeat(60)} }}`, /nested too deeply/, /Split it/],
    [`\${{ ${'!'.repeat(60)}1 }}`, /nested too deeply/, /Split it/],
    ['${{ main }}', /Unknown context `main`/, /single quotes: 'main'/],
    ['${{ github(1) }}', /Unknown function `github`/, /is a context/],
    ['${{ success }}', /Unknown context `success`/, /is a function: write success\(\)/],
    ['${{ constructor(1) }}', /Unknown function `constructor`/, /functions are case, contains/],
    ['${{ __proto__(1) }}', /Unknown function `__proto__`/, /functions are/],
    ['${{ __proto__ }}', /Unknown context `__proto__`/, /contexts are/],
    ['${{ toString() }}', /Unknown function `toString`/, /functions are/],
    ['${{ "a" }}', /Unexpected `"a"`\./, /single quotes/],
    ['${{ 1 + 2 }}', /Unexpected `\+`\./, /no arithmetic/],
    ['${{ github.ref & 1 }}', /Unexpected `&`\./, /`&&`/],
    ['${{ ${{ 1 }} }}', /Unexpected /, /names without/],
    ['${{ github.ref 1 }}', /Unexpected `1`\./, /operators/],
    ['${{ (github.ref }}', /ends unexpectedly/, /Close what is open/],
    ['${{ github.ref && }}', /ends unexpectedly/, /Close what is open/],
    ['${{ contains(1) }}', /`contains` has the wrong number/, /contains\(searched, item\)/],
    ['${{ case(true, 1) }}', /`case` has the wrong number/, /odd number/],
    ['${{ hashFiles() }}', /`hashFiles` has the wrong number/, /255/],
    ["${{ format('a',) }}", /Unexpected `,`\./, /operators/],
    ['${{ github.a\u00a0}}', /white space U\+00A0/, /names/],
    ['${{ jobs.a }}', /`jobs` cannot be used in a step's `run`/, /needs\.NAME/],
    [
      '${{ success() }}',
      /`success` cannot be used in a step's `run`/,
      /a job's `if` and a step's `if`/,
    ],
  ]
  for (const [text, message, instead] of cases) {
    const fault = faultOf(text)
    assert.match(fault?.message ?? '', message, text)
    assert.match(fault?.instead ?? '', instead, text)
  }
})

test('a fault does not repeat a long expression', () => {
  const { message = '', instead = '' } = faultOf(`\${{ ${'a'.repeat(20_000)} }}`) ?? {}
  assert.ok(message.length < 200 && instead.length < 400)
})

test('contexts and functions are available where GitHub documents them', () => {
  const cases: [WorkflowKey, good: string[], bad: string[]][] = [
    ['run-name', ['github', 'inputs', 'vars'], ['env', 'secrets', 'needs', 'hashFiles(1)']],
    ['concurrency', ['github'], ['matrix', 'success()']],
    ['env', ['secrets', 'vars'], ['env', 'matrix', 'runner']],
    ['job.if', ['needs', 'success()', "failure('a', 'b')"], ['matrix', 'env', 'hashFiles(1)']],
    ['job.name', ['matrix', 'strategy'], ['env', 'steps', 'secrets']],
    ['job.strategy', ['needs'], ['matrix', 'env']],
    ['job.env', ['secrets', 'matrix'], ['env', 'runner', 'steps']],
    ['job.outputs', ['steps', 'secrets', 'runner', 'env', 'job'], ['hashFiles(1)']],
    ['job.runs-on', ['matrix'], ['env', 'runner']],
    ['job.defaults', ['env', 'matrix'], ['secrets', 'steps']],
    ['step.if', ['env', 'steps', 'hashFiles(1)', 'always()'], ['secrets', "success('a')"]],
    ['step.env', ['secrets', 'hashFiles(1)'], ['jobs', 'always()']],
    ['step.shell', ['matrix', 'env'], ['jobs']],
    ['action.outputs', ['steps', 'inputs', 'runner'], ['secrets', 'needs', 'vars']],
    ['action.input-default', ['github', 'runner'], ['inputs', 'secrets', 'env']],
    ['action.step', ['inputs', 'steps', 'env'], ['secrets', 'needs', 'cancelled()']],
    ['action.step.if', ['inputs', 'failure()'], ['secrets', 'needs']],
  ]
  for (const [workflowKey, good, bad] of cases) {
    for (const text of good) assert.equal(faultOf(`\${{ ${text} }}`, workflowKey), undefined, text)
    for (const text of bad) {
      assert.ok(faultOf(`\${{ ${text} }}`, workflowKey), `${text} at ${workflowKey}`)
    }
  }
})

test('a condition needs no braces, and means nothing when it is empty', () => {
  for (const text of ['', '  ', 'success()', '${{ success() }}', "\n${{ github.ref == 'a' }}\n"]) {
    assert.deepEqual(checkCondition(toTemplate(text), 'step.if'), [], text)
  }
})

test('a condition that GitHub would treat as a string, and so as true, is rejected', () => {
  for (const text of ['${{ false }} && true', '!${{ false }}', '${{ false }} ${{ false }}']) {
    const [fault] = checkCondition(toTemplate(text), 'step.if')
    assert.match(fault?.message ?? '', /always true/, text)
    assert.match(fault?.instead ?? '', /whole condition into one/, text)
  }
})

test('the advice for a secret in a condition is a variable', () => {
  const [fault] = checkCondition(toTemplate("secrets.TOKEN != ''"), 'step.if')
  assert.equal(fault?.message, "The context `secrets` cannot be used in a step's `if`.")
  assert.match(fault?.instead ?? '', /`env` of the job/)
})
