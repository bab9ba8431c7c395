import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import type { Git, GitProcess } from '../process/git-process.ts'
import { mergeTrees } from './merge-trees.ts'

test('the signal ends git, which may take long to merge large files', async () => {
  const controller = new AbortController()
  let isEnded = false
  // Only what a merge uses of a process that prints nothing.
  const child = {
    stdin: new PassThrough(),
    stdout: new PassThrough(),
    async [Symbol.asyncDispose]() {
      isEnded = true
    },
  } as unknown as GitProcess
  const git: Pick<Git, 'start'> = { start: async () => child }
  const merged = mergeTrees(git, '/r', { ours: 'a', theirs: 'b', signal: controller.signal })
  controller.abort(new Error('The client is gone.'))
  await assert.rejects(merged, /The client is gone/)
  assert.ok(isEnded)
})
