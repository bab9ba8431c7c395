import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { matchesPattern, toBranchPattern } from './branch-pattern.ts'

test('a pattern matches just what the same regular expression matches', () => {
  const text = fc.array(fc.constantFrom('a', 'b', '/', '.', '*'), { maxLength: 8 })
  fc.assert(
    fc.property(text, text, (branch, pattern) => {
      const source = pattern
        .map((part) => (part === '*' ? '.*' : part.replace('.', '\\.')))
        .join('')
      const expected = new RegExp(`^${source}$`, 's').test(branch.join(''))
      assert.equal(matchesPattern(branch.join(''), pattern.join('')), expected)
    }),
    { numRuns: 2000 },
  )
})

test('a pattern of many stars is matched in linear time', () => {
  assert.equal(matchesPattern('a'.repeat(5000), `${'*a'.repeat(100)}*b`), false)
})

test('branch patterns that are accepted', () => {
  assert.equal(toBranchPattern('main'), 'main')
  assert.equal(toBranchPattern('refs/heads/main'), 'main')
  assert.equal(toBranchPattern('release/*'), 'release/*')
  assert.equal(toBranchPattern('*'), '*')
  const refused = [
    '',
    'refs/tags/v1',
    'refs/heads/refs/x',
    'refs/heads/',
    'a b',
    'a..b',
    '-x',
    'HEAD',
  ]
  for (const text of [...refused, 'a'.repeat(251), 'a~1', '/a', 'a/', 'a.lock']) {
    assert.equal(toBranchPattern(text), undefined, text)
  }
})
