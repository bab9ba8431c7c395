import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findText } from '#base/find-text.ts'
import { evaluateText, evaluateTree } from './evaluate.ts'
import { ExpressionError, type Scope } from './scope.ts'

const mebibyte = 1_048_576
const toTemplate = (text: string) => ({ text, position: { file: 'ci.yml', line: 1, column: 1 } })

/** As many repetitions of a text as have this length. */
const fill = (text: string, length: number) => text.repeat(Math.floor(length / text.length))

const toScope = (env: Record<string, string>): Scope => ({
  contexts: { env },
  status: { success: true, failure: false, cancelled: false },
  hashFiles: () => '',
})

function refused(text: string, env: Record<string, string>, message: RegExp) {
  assert.throws(
    () => evaluateText(toTemplate(text), toScope(env)),
    (fault) => fault instanceof ExpressionError && message.test(fault.message),
    text.slice(0, 80),
  )
}

const tooLarge = /larger than 1 MiB/
const tooMuch = /processes too much data/

test('values larger than 1 MiB are rejected', () => {
  let nested = "'aaaaaaaaaa'"
  for (let level = 0; level < 30; level++) nested = `format('{0}{0}{0}{0}', ${nested})`
  refused(`\${{ ${nested} }}`, {}, tooLarge)
  refused('${{ format(env.a, env.b) }}', { a: fill('{0}', mebibyte), b: 'bbbb' }, tooLarge)
  const numbers = `[${fill('1,', 20_000)}1]`
  refused('${{ join(fromJSON(env.a), env.b) }}', { a: numbers, b: fill('b', 1000) }, tooLarge)
  refused('${{ toJSON(env) }}', { a: fill('"', mebibyte - 10) }, tooLarge)
  refused('${{ env.a }}', { a: fill('a', mebibyte + 1) }, tooLarge)
  refused('${{ fromJSON(env.a) }}', { a: fill('"', mebibyte + 2) }, tooLarge)
  refused('${{ env.a }}${{ env.a }}', { a: fill('a', 600_000) }, tooLarge)
})

test('values with too many parts are rejected', () => {
  for (const part of ['[],', '{},', '1,', '{"a":{}},']) {
    refused('${{ fromJSON(env.a) }}', { a: `[${fill(part, mebibyte - 10)}1]` }, tooMuch)
  }
  const depth = fill('[', 5000) + fill(']', 5000)
  refused('${{ fromJSON(env.a) }}', { a: depth }, /more than 100 levels/)
  const wide = JSON.stringify(Object.fromEntries(Array(10_001).fill(0).entries()))
  refused('${{ fromJSON(env.a).* }}', { a: wide }, /more than 10000 names/)
})

test('expensive repeated work is rejected', () => {
  const words = `[${fill('"x",', 300_000)}1]`
  refused('${{ contains(fromJSON(env.a), env.b) }}', { a: words, b: fill('b', mebibyte) }, tooMuch)
  const compared = Array(30).fill('env.a == env.b').join(' || ')
  refused(`\${{ ${compared} }}`, { a: fill('ı', mebibyte), b: fill('b', mebibyte) }, tooMuch)
  const read = Array(100).fill("fromJSON(env.a)[0] == 'b'").join(' || ')
  refused(`\${{ ${read} }}`, { a: `[${fill('1,', 20_000)}1]` }, tooMuch)
})

test('all texts of a tree share one budget', () => {
  const tree = Array(100).fill(toTemplate('${{ toJSON(env) }}'))
  const scope = toScope({ a: fill('a', 500_000) })
  assert.throws(() => evaluateTree(tree, scope), { name: 'ExpressionError', message: tooMuch })
})

test('chains of operators and arguments are limited', () => {
  const deep = /nested too deeply/
  refused(`\${{ ${Array(4000).fill('1').join('==')} }}`, {}, deep)
  refused(`\${{ ${Array(4000).fill('1').join('<')} }}`, {}, deep)
  refused(`\${{ github${'.a'.repeat(5000)} }}`, {}, deep)
  refused(`\${{ format(${Array(3000).fill("''").join(',')}) }}`, {}, /wrong number of arguments/)
})

test('large values within the limits are evaluated', () => {
  const text = (template: string, env: Record<string, string>) =>
    evaluateText(toTemplate(template), toScope(env))
  const large = fill('a', 500_000)
  assert.equal(text('${{ env.a }}', { a: large }), large)
  assert.equal(text(`\${{ ${Array(1000).fill('1').join('&&')} }}`, {}), '1')
  assert.equal(text(`\${{ ${Array(200).fill('1').join('==')} }}`, {}), 'true')
  assert.equal(text('${{ 1 }}'.repeat(10_000), {}), '1'.repeat(10_000))
  const list = JSON.stringify(Array(5000).fill({ name: 'x' }))
  assert.equal(text("${{ join(fromJSON(env.a).*.name, '') }}", { a: list }), fill('x', 5000))
  const json = `{"a": [${fill('1,', 20_000)}1]}`
  const often = '${{ fromJSON(env.a).a[0] }} '.repeat(15)
  assert.equal(text(often, { a: json }), '1 '.repeat(15))
  const braces = fill('{', mebibyte)
  assert.equal(text('${{ format(env.a) }}', { a: braces }).length, mebibyte / 2)
})

test('a long text is found in a long one', () => {
  const long = `${fill('a', 300)}b${fill('a', 300)}`
  const other = `${fill('ab', 300)}c`
  for (const [searched, part] of [
    [`${fill('a', 5000)}b${fill('a', 5000)}`, long],
    [`${fill('a', 5000)}b${fill('a', 299)}`, long],
    [`${fill('ab', 2000)}c`, other],
  ] as const)
    assert.equal(findText(searched, part), searched.indexOf(part))
  // With `includes` this takes a minute.
  const hard = `${fill('a', mebibyte / 4)}b${fill('a', mebibyte / 4)}`
  assert.equal(findText(fill('a', mebibyte), hard), -1)
})
