import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toBranchPattern } from './ref-pattern.ts'

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
