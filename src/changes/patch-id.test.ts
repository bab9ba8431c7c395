import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createPatchDigest } from './patch-id.ts'

/** What counts of some lines of `git log --patch`. */
function digestOf(lines: string[], chunkLength = 7): string {
  const taken: string[] = []
  const digest = createPatchDigest((line) => taken.push(line))
  const bytes = Buffer.from(lines.join('\n'))
  for (let at = 0; at < bytes.length; at += chunkLength)
    digest.push(bytes.subarray(at, at + chunkLength))
  digest.end()
  return taken.join('')
}

test('where a patch applies does not count, and everything else does', () => {
  const patch = [
    'commit',
    ' Ada <ada@x>',
    ' Subject',
    'index 1..2 100644',
    '@@ -1 +1 @@ f',
    '-a',
    '+b',
  ]
  const rebased = patch.with(3, 'index 3..4 100644').with(4, '@@ -9 +9 @@ g')
  assert.equal(digestOf(rebased), digestOf(patch))
  assert.equal(digestOf(patch, 1), digestOf(patch, 1000))
  const others = [patch.with(6, '+b '), patch.with(6, '+index 1'), patch.with(2, ' index 1')]
  for (const other of [...others, [...patch, '+@@ -1 +1 @@']])
    assert.notEqual(digestOf(other), digestOf(patch))
})
