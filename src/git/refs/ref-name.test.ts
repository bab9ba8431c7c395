import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import fc from 'fast-check'
import { isRefName, refNameFault } from './ref-name.ts'

test('accepts just the names that git check-ref-format accepts', () => {
  const piece = fc.constantFrom(
    ...['a', 'B', '0', '-', '.', '..', '/', '//', '@', '{', '@{', '~', '^', ':', '?', '*', '['],
    ...['\\', ' ', '\x7f', '\x01', '.lock', 'lock', 'é', '🙂', 'HEAD', 'refs/', 'heads/', '"', "'"],
  )
  const name = fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join(''))
  const text = fc
    .oneof(name, fc.string({ maxLength: 20 }))
    .filter((one) => !one.includes('\0') && one.isWellFormed())
  const names = fc.array(
    text.map((one) => `refs/${one}`),
    { minLength: 1, maxLength: 40 },
  )
  const accepted = fc.property(names, (refs) => {
    assert.deepEqual(refs.filter(isRefName), acceptedByGit(refs))
  })
  fc.assert(accepted, { numRuns: 20 })
})

// A small process starts git more cheaply than that of the tests.
function acceptedByGit(refs: readonly string[]): string[] {
  const script = `while IFS= read -r -d '' ref; do
    if git check-ref-format "$ref"; then printf '%s\\0' "$ref"; fi
  done`
  const input = refs.map((ref) => `${ref}\0`).join('')
  const printed = execFileSync('bash', ['-c', script], { input, encoding: 'utf8' })
  return printed.split('\0').slice(0, -1)
}

test('names that git accepts but people and programs mistake are rejected', () => {
  const id = execFileSync('git', ['hash-object', '--stdin'], { input: '', encoding: 'utf8' }).trim()
  const refused = [
    ...['refs/heads/-x', 'refs/heads/HEAD', 'refs/tags/HEAD', 'refs/heads/refs/heads/main'],
    ...[`refs/heads/${id}`, `refs/tags/${id.toUpperCase()}`, `refs/heads/${'0'.repeat(64)}`],
    ...['refs/replace/x', 'refs/svc/x', 'refs/svc', 'HEAD', 'main'],
    ...[`refs/heads/${'x'.repeat(251)}`, `refs/x/${'é'.repeat(126)}/y`],
  ]
  for (const ref of refused) assert.equal(typeof refNameFault(ref), 'string', ref)
  const accepted = [
    ...[
      'refs/heads/main',
      'refs/tags/v1',
      'refs/notes/commits',
      'refs/heads/a/-x',
      'refs/heads/head',
      `refs/heads/${'x'.repeat(250)}`,
    ],
    ...[
      'refs/heads/HEAD/x',
      `refs/heads/x${id}`,
      'refs/pull/1/head',
      'refs/svcx/y',
      'refs/heads/é',
    ],
  ]
  for (const ref of accepted) assert.equal(refNameFault(ref), undefined, ref)
})
