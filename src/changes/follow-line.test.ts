import assert from 'node:assert/strict'
import { test } from 'node:test'
import { followHunks } from './follow-line.ts'

const follow = (patch: string, lines: number[]) => lines.map(followHunks(patch))

test('lines are followed past hunks, until they are changed', () => {
  assert.deepEqual(follow('', [1, 9]), [1, 9])
  assert.deepEqual(follow('@@ -3 +3 @@\n-a\n+b', [2, 3, 4]), [2, undefined, 4])
  assert.deepEqual(follow('@@ -3,2 +2,0 @@', [2, 3, 4, 5]), [2, undefined, undefined, 3])
  assert.deepEqual(follow('@@ -2,0 +3,2 @@', [2, 3]), [2, 5])
  assert.deepEqual(follow('@@ -0,0 +1 @@\n+x\n@@ -5 +6,3 @@ f', [1, 5, 6]), [2, undefined, 9])
})

test('what a line says is no hunk, and a deleted file has no lines', () => {
  assert.deepEqual(follow('@@ -9 +9 @@\n-a\n+@@ -1 +1,5 @@', [2]), [2])
  assert.deepEqual(follow('deleted file mode 100644\n@@ -1 +0,0 @@', [1, 2]), [
    undefined,
    undefined,
  ])
})
