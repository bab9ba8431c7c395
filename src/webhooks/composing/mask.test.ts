import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { secretValues, shownPart } from '../../../test/support/secret-parts.ts'
import { createMask, maskCommit } from './mask.ts'

test('no part of a secret appears in a truncated commit', async () => {
  await fc.assert(
    fc.asyncProperty(secretValues, fc.nat(60), async (secret, length) => {
      const cut = `fix: ${secret}`.slice(0, 5 + length)
      const person = { name: cut, email: cut, at: '' }
      const commit = { id: '', treeId: '', message: cut, author: person, committer: person }
      const masks = createMask({ KEY: secret })
      const masked = maskCommit({ ...commit, isComplete: false }, masks)
      assert.equal(shownPart(JSON.stringify(masked), secret), undefined)
    }),
  )
})

test('a complete commit keeps its end, even if it is the start of a secret', async () => {
  const masks = createMask({ KEY: 'hunter2' })
  const person = { name: 'hunter2', email: 'a@b.test', at: '' }
  const commit = { id: '', treeId: '', message: 'the hunt', author: person, committer: person }
  const masked = maskCommit(commit, masks)
  assert.deepEqual([masked.message, masked.author.name], ['the hunt', '***'])
  assert.equal(maskCommit({ ...commit, isComplete: false }, masks).message, 'the ')
})
