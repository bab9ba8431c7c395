import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { coversPattern, matchesPattern } from './text-pattern.ts'

test('a pattern matches just what the same regular expression matches', () => {
  const text = fc.array(fc.constantFrom('a', 'b', '/', '.', '*'), { maxLength: 8 })
  fc.assert(
    fc.property(text, text, (text, pattern) => {
      const source = pattern
        .map((part) => (part === '*' ? '.*' : part.replace('.', '\\.')))
        .join('')
      const expected = new RegExp(`^${source}$`, 's').test(text.join(''))
      assert.equal(matchesPattern(text.join(''), pattern.join('')), expected)
    }),
    { numRuns: 2000 },
  )
})

test('a pattern that another one covers matches nothing else', () => {
  const pattern = fc.array(fc.constantFrom('a', 'b', '*'), { maxLength: 6 })
  const filling = fc.array(fc.constantFrom('', 'a', 'b', 'ab'), { minLength: 6, maxLength: 6 })
  fc.assert(
    fc.property(pattern, pattern, filling, (wide, narrow, fills) => {
      fc.pre(coversPattern(wide.join(''), narrow.join('')))
      const text = narrow.map((part, index) => (part === '*' ? fills[index] : part)).join('')
      assert.ok(matchesPattern(text, wide.join('')))
    }),
    { numRuns: 2000 },
  )
})

test('which patterns cover others', () => {
  for (const [wide, narrow] of [
    ['refs/heads/*', 'refs/heads/agents/*'],
    ['refs/heads/agents/*', 'refs/heads/agents/7'],
    ['*', '*'],
    ['a*', 'a**'],
  ] as const)
    assert.ok(coversPattern(wide, narrow), `${wide} ${narrow}`)
  for (const [wide, narrow] of [
    ['refs/heads/agents/*', 'refs/heads/*'],
    ['refs/heads/agents/*', 'refs/heads/agent*'],
    ['refs/heads/a', 'refs/heads/*'],
    ['a*b', 'a*'],
  ] as const)
    assert.ok(!coversPattern(wide, narrow), `${wide} ${narrow}`)
})
