import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Json } from '#base/json.ts'
import { evaluateCondition, evaluateText, evaluateTree, evaluateValue } from './evaluate.ts'
import { ExpressionError, type Scope } from './scope.ts'

const position = { file: 'ci.yml', line: 3, column: 7 }
const toTemplate = (text: string) => ({ text, position })

const fruits = [
  { name: 'apple', tags: ['a', 'b'] },
  { name: 'orange', tags: [] },
  { Name: 'pear', extra: { deep: 1 } },
]
const scope: Scope = {
  contexts: {
    github: { ref: 'refs/heads/main', event: { fruits, flag: true, nothing: null } },
    env: { Path: 'one', PATH: 'two' },
    // As JSON.parse makes it: with a name of its own, not a prototype.
    secrets: JSON.parse('{"TOKEN": "t", "__proto__": "p", "CONSTRUCTOR": "c"}'),
    needs: {
      build: { result: 'success', outputs: { tag: 'v1' } },
      lint: { result: 'failure', outputs: {} },
    },
  },
  status: { success: true, failure: false, cancelled: false },
  hashFiles: (patterns) => `hash of ${patterns.join(' and ')}`,
}

const give = (expression: string, of = scope) =>
  evaluateValue(toTemplate(`\${{ ${expression} }}`), of)

const assertValues = (cases: [expression: string, value: Json][]) => {
  for (const [expression, value] of cases) assert.deepEqual(give(expression), value, expression)
}

test('literals', () => {
  assertValues([
    ['null', null],
    ['true', true],
    ['711', 711],
    ['-9.2', -9.2],
    ['0xff', 255],
    ['1e3', 1000],
    ['-2.99e-2', -0.0299],
    ["'It''s ''open'' source!'", "It's 'open' source!"],
    ["''", ''],
  ])
})

test('comparisons are loose and case-insensitive', () => {
  assertValues([
    ["'a' == 'A'", true],
    ['null == 0', true],
    ["null == ''", true],
    ['false == 0', true],
    ["true == '1'", true],
    ["'1' == 1", true],
    ["' 1 ' == 1", true],
    ["'0xff' == 255", true],
    ["'a' == 0", false],
    ["'' == 0", true],
    ['NaN == NaN', false],
    ['NaN != NaN', true],
    ["'a' < 1", false],
    ["'a' >= 1", false],
    ["'b' > 'A'", true],
    ['2 > 10', false],
    ["'2' > '10'", true],
    ['1 <= 1', true],
    ['true > false', true],
    ['github == github', true],
    ['github.event == github.event', true],
    ["fromJSON('[]') == fromJSON('[]')", false],
    ["github == ''", false],
  ])
})

test('operators short-circuit and return one of their operands', () => {
  assertValues([
    ["'' || 'b'", 'b'],
    ["'a' && 'b'", 'b'],
    ["0 && fromJSON('not JSON')", 0],
    ["1 || fromJSON('not JSON')", 1],
    ['null || false || 0', 0],
    ['1 && 2 && 3', 3],
    ['!github', false],
    ["!''", true],
    ['!NaN', true],
    ['!!2', true],
    ['true || false && false', true],
    ["!github.nothing && 'x' == 'X' != false", true],
  ])
})

test('missing properties and indexes are null', () => {
  assertValues([
    ['github.REF', 'refs/heads/main'],
    ["GitHub['Ref']", 'refs/heads/main'],
    ['github.missing.more[3].and.more', null],
    ['github.event.fruits[1].name', 'orange'],
    ["github.event.fruits['1'].name", 'orange'],
    ['github.event.fruits[1.9].name', 'orange'],
    ['github.event.fruits[9]', null],
    ['github.event.fruits[-1]', null],
    ['github.event.fruits.length', null],
    ['github.ref[0]', null],
    ["fromJSON('[[1, 2]]')[0][1]", 2],
    ['matrix.os', null],
    ['secrets.TOKEN', 't'],
    ['secrets.missing', null],
  ])
})

test('variables differ by case, as on Linux', () => {
  assertValues([
    ['env.Path', 'one'],
    ['env.PATH', 'two'],
    ['env.path', null],
  ])
})

test('names of Object.prototype are ordinary names', () => {
  assertValues([
    ['secrets.__proto__', 'p'],
    ['secrets.constructor', 'c'],
    ['github.constructor', null],
    ['github.__proto__', null],
    ['github.event.hasOwnProperty', null],
    ['fromJSON(\'{"__proto__": {"a": 1}}\').__proto__.a', 1],
    ['fromJSON(\'{"__proto__": {"a": 1}}\').a', null],
  ])
  const made = give('fromJSON(\'{"__proto__": {"polluted": 1}, "constructor": 2}\')')
  assert.equal(JSON.stringify(made), '{"__proto__":{"polluted":1},"constructor":2}')
  assert.equal(Object.getPrototypeOf(made), Object.prototype)
  assert.equal(give('toJSON(secrets)'), JSON.stringify(scope.contexts.secrets, null, 2))
  assert.throws(() => give('constructor(github)'), /Unknown function/)
})

test('filters collect matching values', () => {
  assertValues([
    ['github.event.fruits.*.name', ['apple', 'orange', 'pear']],
    ['github.event.fruits[*].tags', [['a', 'b'], []]],
    ['github.event.fruits.*.tags.*', ['a', 'b']],
    ['github.event.fruits.*.tags[0]', ['a']],
    ['github.event.fruits.*.extra.deep', [1]],
    ['needs.*.result', ['success', 'failure']],
    ['github.ref.*', []],
    ['github.missing.*.name', []],
    ["contains(needs.*.result, 'FAILURE')", true],
    ["join(github.event.fruits.*.name, ', ')", 'apple, orange, pear'],
  ])
})

test('functions', () => {
  assertValues([
    ["contains('Hello world', 'LLO')", true],
    ["contains(1234, '23')", true],
    ["contains(fromJSON('[1, \"x\"]'), 'X')", true],
    ["contains(fromJSON('[1, 2]'), '2')", true],
    ["contains(github, 'ref')", false],
    ["startsWith('Hello', 'he')", true],
    ["endsWith('Hello', 'LO')", true],
    ["startsWith(github, '')", false],
    ["format('Hello {0} {1} {0}', 'Mona', 2)", 'Hello Mona 2 Mona'],
    ["format('{{Hello {0}!}}', 'Mona')", '{Hello Mona!}'],
    ["format('{0}', '{0}')", '{0}'],
    ["format('{0}|{1}|{2}|{3}', null, true, github, needs.*)", '|true|Object|Array'],
    ["join('text')", 'text'],
    ["join(fromJSON('[1, null, true]'))", '1,,true'],
    ['join(github)', ''],
    ['fromJSON(\' {"a": [1.5]} \').a[0]', 1.5],
    ["fromJSON('true') == true", true],
    ["case(false, 'a', true, 'b', 'c')", 'b'],
    ["case(false, 'a', 'c')", 'c'],
    ["hashFiles('a', 'b/**')", 'hash of a and b/**'],
    ['ToJson(null)', 'null'],
  ])
})

test('toJSON writes what JSON.stringify writes with two spaces', () => {
  const values: Json[] = [[], {}, [[]], { a: {} }, [1, 'ä\n"', null, { b: [true, { c: 'd' }] }]]
  for (const value of values) {
    const of = { ...scope, contexts: { inputs: { value } } }
    assert.equal(give('toJSON(inputs.value)', of), JSON.stringify(value, null, 2))
  }
})

test('values in a text are written as GitHub writes them', () => {
  const cases: [text: string, written: string][] = [
    ['no expression', 'no expression'],
    ['', ''],
    ['a ${{ null }}b ${{ true }} ${{ false }}', 'a b true false'],
    ['${{ 1.50 }} ${{ 1e3 }} ${{ -0 }} ${{ 1e21 }} ${{ 0.1 }}', '1.5 1000 0 1e+21 0.1'],
    ['${{ github }} ${{ needs.*.result }}', 'Object Array'],
    ["${{ '${{' }} ${{ '}}' }}", '${{ }}'],
    ['[${{ secrets.missing }}]', '[]'],
    ['${{github.ref}}\n  ${{\n needs.build.outputs.tag\n}}\n', 'refs/heads/main\n  v1\n'],
  ]
  for (const [text, written] of cases) {
    assert.equal(evaluateText(toTemplate(text), scope), written, text)
  }
})

test('a single expression keeps the type of its value, any other text is a string', () => {
  assert.deepEqual(evaluateValue(toTemplate('${{ needs.*.result }}'), scope), [
    'success',
    'failure',
  ])
  assert.equal(evaluateValue(toTemplate('${{ 1 }} '), scope), '1 ')
  assert.equal(evaluateValue(toTemplate('${{ 1 }}${{ 2 }}'), scope), '12')
  assert.equal(evaluateValue(toTemplate('1'), scope), '1')
})

test('a tree keeps its form', () => {
  const tree = {
    tree: {
      os: [toTemplate('${{ github.ref }}'), 'linux'.length, null],
      more: { tree: { ['__proto__']: toTemplate('${{ fromJSON(1) }}'), flag: true } },
    },
  }
  assert.equal(
    JSON.stringify(evaluateTree(tree, scope)),
    '{"os":["refs/heads/main",5,null],"more":{"__proto__":1,"flag":true}}',
  )
})

test('a condition implies success() unless it has a status function', () => {
  const failed = { success: false, failure: true, cancelled: false }
  const cases: [text: string | undefined, onSuccess: boolean, onFailure: boolean][] = [
    [undefined, true, false],
    ['', true, false],
    ['true', true, false],
    ['${{ true }}', true, false],
    [' ${{ false }}\n', false, false],
    ['always()', true, true],
    ['failure()', false, true],
    ['Failure() || false', false, true],
    ['!cancelled()', true, true],
    ["github.ref == 'refs/heads/main'", true, false],
    ["always() && github.ref == 'refs/heads/MAIN'", true, true],
    ["'always()'", true, false],
    ["''", false, false],
    ['0', false, false],
    ['github', true, false],
    ["success('build')", true, true],
    ["success('build', 'lint')", false, false],
    ["failure('lint')", true, true],
  ]
  for (const [text, onSuccess, onFailure] of cases) {
    const template = text === undefined ? undefined : toTemplate(text)
    assert.equal(evaluateCondition(template, scope), onSuccess, text ?? 'none')
    assert.equal(
      evaluateCondition(template, { ...scope, status: failed }),
      onFailure,
      text ?? 'none',
    )
  }
})

test('after a failure, the rest of a condition is not evaluated', () => {
  const of = { ...scope, status: { success: false, failure: true, cancelled: false } }
  assert.equal(evaluateCondition(toTemplate("fromJSON('no JSON')"), of), false)
})

test('an error has its position and no values', () => {
  const cases: [expression: string, message: RegExp][] = [
    ["fromJSON('s3cret')", /^fromJSON got invalid JSON/],
    ["fromJSON('  ')", /^fromJSON got an empty string/],
    ["github[fromJSON('s3cret')]", /^fromJSON got invalid JSON/],
    ["format('s3cret {')", /single brace/],
    ["format('s3cret }{0}', 1)", /single brace/],
    ["format('s3cret {1}', 1)", /refers to \{1}, but has 1/],
    ["case('s3cret', 1, 2)", /predicate/],
    ["failure('s3cret')", /among the `needs`/],
    ['foo', /Unknown context/],
  ]
  for (const [expression, message] of cases) {
    assert.throws(
      () => give(expression),
      (fault) => {
        assert.ok(fault instanceof ExpressionError)
        assert.match(fault.message, message)
        const { line, file } = fault.position
        assert.deepEqual({ line, file }, { line: 3, file: 'ci.yml' })
        return expression.startsWith('failure') || !fault.message.includes('s3cret')
      },
    )
  }
})

test('files that cannot be hashed are a fault of the expression', () => {
  const hashFiles = () => {
    throw new Error('too many files')
  }
  assert.throws(() => give("hashFiles('**')", { ...scope, hashFiles }), {
    name: 'ExpressionError',
    message: 'hashFiles failed: too many files',
  })
})
