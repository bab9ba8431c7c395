import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RunEntry } from '../workflow-engine/plan.ts'
import { toEntryText } from './reporter.ts'

const stepEnded = {
  kind: 'step-ended',
  step: 0,
  at: 1,
  conclusion: 'success',
  exitCode: 0,
  fault: '',
} as const

test('an entry that fits stays as it is', () => {
  const entry: RunEntry = { ...stepEnded, summary: 'ü\u0000\n'.repeat(100) }
  assert.deepEqual(JSON.parse(toEntryText(entry, 4000)), entry)
})

test('a summary that is too long is truncated, measured as JSON', () => {
  for (const character of ['x', '\u0001', 'ü', '😀', '\ud800']) {
    const entry: RunEntry = { ...stepEnded, summary: character.repeat(10_000) }
    const text = toEntryText(entry, 2000)
    assert.ok(Buffer.byteLength(text) <= 2000)
    const { summary, ...rest } = JSON.parse(text)
    assert.deepEqual(rest, stepEnded)
    assert.match(summary, /^.{100}.* … \(the rest was too long to report\)$/u)
  }
})

test('outputs are kept whole or not at all', () => {
  const outputs = Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [`name${n}`, 'value']))
  const entry: RunEntry = {
    kind: 'job-ended',
    job: 0,
    at: 1,
    conclusion: 'success',
    outputs,
    fault: '',
  }
  const shortened = JSON.parse(toEntryText(entry, 2000))
  assert.deepEqual(shortened.outputs, {})
  assert.match(shortened.fault, /too long to be kept/)
})
