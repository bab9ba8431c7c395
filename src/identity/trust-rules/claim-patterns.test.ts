import assert from 'node:assert/strict'
import { test } from 'node:test'
import { areIdentifying, claimMismatch } from './claim-patterns.ts'

test('claims match their patterns, and a list or an object matches none', () => {
  const claims = { sub: 'repo:acme/site:ref:refs/heads/main', id: 74, ok: true, many: ['a'] }
  for (const [patterns, mismatch] of [
    [{}, undefined],
    [{ sub: 'repo:acme/site:ref:refs/heads/*', id: '74', ok: 'true' }, undefined],
    [{ sub: 'repo:acme/site' }, /^The claim "sub" is "repo:acme.*, and not "repo:acme\/site"\.$/],
    [{ sub: 'Repo:acme/site:*' }, /"sub"/],
    [{ many: '*' }, /^The token has no claim "many"\.$/],
    [{ toString: '*' }, /no claim "toString"/],
  ] as const) {
    const actual = claimMismatch(claims, patterns)
    if (mismatch === undefined) assert.equal(actual, undefined)
    else assert.match(actual ?? '', mismatch)
  }
})

test('a rule names its workloads by a claim that is not that of others', () => {
  const cases = {
    'repo:acme/*': true,
    'acme*': false,
    'repo:acme*': false,
    'r*': false,
    'system:serviceaccount:ci:*': true,
    'repo:*': false,
    '*': false,
    '*x': false,
  }
  for (const [sub, isIdentifying] of Object.entries({
    ...cases,
    '': false,
    'project_path:*': false,
  }))
    assert.equal(areIdentifying({ sub, ref: 'refs/heads/main' }), isIdentifying, sub)
  assert.equal(areIdentifying({ ref: 'refs/heads/main' }), false)
  assert.equal(areIdentifying({ ref: 'x', project_id: '22' }), true)
  for (const name of ['project_id', 'repository_owner', 'repository_id'])
    assert.equal(areIdentifying({ [name]: '2*' }), false)
})
