import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { systemPath } from '../../../test/support/sandbox.ts'
import { makePipes } from './pipes.ts'
import { runProcess } from './run-process.ts'
import type { Exit } from './running-process.ts'
import { findTools } from './tools.ts'

test('a stopped command returns only when no kill is in progress', async () => {
  using pipes = await makePipes(findTools(systemPath), undefined)
  const exit = Promise.withResolvers<Exit>()
  let kills = 0
  const { reason } = await runProcess(
    {
      pipe: pipes.output,
      limits: { memoryMaxBytes: 1, processesMax: 1, fileMaxBytes: 1, freeSpaceMinBytes: 0 },
      memoryGroup: undefined,
      disk: '/',
      start: () => ({
        exited: exit.promise,
        processes: () => [],
        memory: async () => 2,
        async endAll() {
          kills++
          exit.resolve({ exitCode: 137, fault: undefined })
          // The first kill takes longer than a later one, which finds no process.
          if (kills === 1) await sleep(50)
          kills--
        },
      }),
      onDiskFull: async () => {},
      disposing: new AbortController().signal,
    },
    {
      command: ['true'],
      env: {},
      cwd: '/',
      timeoutMs: 60_000,
      signal: new AbortController().signal,
      onOutput: () => {},
    },
  )
  assert.deepEqual([reason, kills], ['out-of-memory', 0])
})
