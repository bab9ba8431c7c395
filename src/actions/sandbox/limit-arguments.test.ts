import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limitArguments } from './resource-limits.ts'

const limits = { memoryMaxBytes: 5000, processesMax: 20, fileMaxBytes: 300, freeSpaceMinBytes: 0 }

test('limits become arguments of prlimit, and lower existing ones stay', () => {
  const ownLimits = [
    'Limit                     Soft Limit           Hard Limit           Units',
    'Max file size             unlimited            unlimited            bytes',
    'Max processes             10                   96363                processes',
    'Max open files            1024                 2048                 files',
  ].join('\n')
  assert.deepEqual(limitArguments(limits, { ownLimits, otherTasks: 3 }), [
    '--nproc=23',
    '--fsize=300',
    '--data=5000',
    '--nofile=2048',
    '--core=0',
  ])
})
