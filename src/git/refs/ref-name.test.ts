import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { test } from 'node:test'
import fc from 'fast-check'
import { isRefName, refNameFault } from './ref-name.ts'

test('accepts just the names that git check-ref-format accepts', () => {
  const piece = fc.constantFrom(
    ...['a', 'B', '0', '-', '.', '..', '/', '//', '@', '{', '@{', '~', '^', ':', '?', '*', '['],
    ...['\\', ' ', '\x7f', '\x01', '.lock', 'lock', 'é', '🙂', 'HEAD', 'refs/', 'heads/', '"', "'"],
  )
  const name = fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join(''))
  fc.assert(
    fc.property(fc.oneof(name, fc.string({ maxLength: 20 })), (text) => {
      fc.pre(!text.includes('\0') && isEncodable(text))
      const ref = `refs/${text}`
      const { status } = spawnSync('git', ['check-ref-format', ref])
      assert.equal(isRefName(ref), status === 0, JSON.stringify(ref))
    }),
    { numRuns: 400 },
  )
})

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

// Half a surrogate pair cannot be handed to a program as it is.
function isEncodable(text: string): boolean {
  return text.isWellFormed()
}
