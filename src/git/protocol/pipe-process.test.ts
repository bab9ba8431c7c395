import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Writable } from 'node:stream'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { GitProcess } from '../process/git-process.ts'
import { pipeProcess } from './pipe-process.ts'
import { bodyOf } from './request-body.ts'

test('the output of git reaches a slow client long after git has ended', async () => {
  const child = spawn('head', ['-c', '50000', '/dev/zero'])
  const exited = once(child, 'exit')
  const ended = once(child, 'close').then(([exitCode]) => ({ exitCode, errorOutput: '' }))
  let received = 0
  const output = new Writable({
    highWaterMark: 1,
    async write(chunk, _encoding, done) {
      received += chunk.length
      await exited
      for (let pause = 0; pause < 20; pause++) await turn()
      done()
    },
  })
  const { stdin, stdout, pid } = child
  const process = { stdin, stdout, pid, ended } as unknown as GitProcess
  const signal = new AbortController().signal
  const watch = { onBegin() {}, onProgress() {} }
  await pipeProcess(process, { input: bodyOf(), output, sendsAllFirst: true, signal, ...watch })
  assert.equal(received, 50_000)
})
