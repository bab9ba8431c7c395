import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RunEntry } from '#actions/workflow-engine/plan.ts'
import { createRunSummary } from './run-summary.ts'

test('jobs and steps are listed in order, with conclusions and times', () => {
  const lines = summarize([
    { kind: 'job-planned', at: 0, job: 1, file: 'ci.yml', id: 'build', name: 'build' },
    { kind: 'step-planned', at: 0, job: 1, step: 1, name: 'compile' },
    { kind: 'step-planned', at: 0, job: 1, step: 2, name: 'publish' },
    { kind: 'job-started', at: 1000, job: 1 },
    { kind: 'step-started', at: 1000, step: 1 },
    { kind: 'step-ended', at: 3500, step: 1, conclusion: 'failure' },
    { kind: 'step-ended', at: 3500, step: 2, conclusion: 'skipped' },
    { kind: 'job-ended', at: 4000, job: 1, conclusion: 'failure' },
  ])
  assert.deepEqual(lines, ['build failure 3.0 s', 'compile failure 2.5 s', 'publish skipped'])
})

test('a long name fits a terminal and keeps its end', () => {
  const name = `test (${'x'.repeat(100)}, node 26)`
  const [line = ''] = summarize([
    { kind: 'job-planned', at: 0, job: 1, file: 'ci.yml', id: 'test', name },
  ])
  assert.ok(line.length <= 58, line)
  assert.match(line, /^test \(x+…x+, node 26\)$/)
})

function summarize(entries: object[]): string[] {
  const summary = createRunSummary()
  // Only the fields that a summary reads.
  for (const entry of entries) summary.take(entry as RunEntry)
  const lines = summary.toText().trimEnd().split('\n')
  return lines.map((line) => line.trim().replace(/ {2,}/g, ' '))
}
