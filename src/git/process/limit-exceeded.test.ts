import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { test } from 'node:test'
import { limitExceeded } from './limit-exceeded.ts'

const limits = { memoryMaxBytes: 64 * 1024 * 1024, cpuMaxSeconds: 7 }
const byTime = { exitCode: null, signal: 'SIGXCPU', errorOutput: '' } as const

test('an exceeded limit is recognized by the signal or error message of git or its child', () => {
  const messageOf = (errorOutput: string, exitCode = 128) =>
    limitExceeded({ exitCode, signal: null, errorOutput }, limits)?.message ?? ''
  assert.match(limitExceeded(byTime, limits)?.message ?? '', /7 s of processor time/)
  const killed = `error: pack-objects died of signal ${constants.signals.SIGXCPU}\n`
  assert.match(messageOf(`${killed}fatal: aborting\n`), /7 s of processor time/)
  assert.match(messageOf('fatal: Out of memory, malloc failed\n'), /64 MiB of memory/)
  assert.match(messageOf('fatal: mmap failed: Cannot allocate memory\n'), /64 MiB of memory/)
  assert.equal(messageOf(`error: pack-objects died of signal ${constants.signals.SIGTERM}\n`), '')
  assert.equal(messageOf('remote: out of memory\n'), '')
  assert.equal(messageOf('warning: out of memory\n', 0), '')
  assert.equal(limitExceeded({ ...byTime, signal: 'SIGKILL' }, limits), undefined)
})

test('the setting is named when the limit comes from it', () => {
  assert.match(limitExceeded(byTime, limits, limits)?.message ?? '', /SVC_GIT_CPU_SECONDS/)
  const others = { ...limits, cpuMaxSeconds: 9 }
  assert.doesNotMatch(limitExceeded(byTime, limits, others)?.message ?? '', /SVC_/)
})
