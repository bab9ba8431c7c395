import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkBody } from '#http/validation.ts'
import type { RunEntry } from '../workflow-engine/plan.ts'
import type { CheckedEntry } from './entry-schema.ts'
import { ReportBody } from './runner-api.ts'

const entries: RunEntry[] = [
  { kind: 'isolation', isolation: 'bubblewrap', description: 'They see nothing.' },
  {
    kind: 'job-planned',
    job: 0,
    file: '.svc/workflows/ci.yml',
    workflow: 'ci',
    id: 'build',
    name: 'build (18)',
    matrix: '{"node":18}',
  },
  { kind: 'job-started', job: 0, at: 1 },
  { kind: 'step-planned', job: 0, step: 0, name: 'Run true' },
  { kind: 'step-started', step: 0, at: 2 },
  { kind: 'step-started', step: 1, at: 2, name: 'Release 1.2' },
  {
    kind: 'annotation',
    step: 0,
    level: 'warning',
    file: 'src/a.ts',
    line: 3,
    endLine: 4,
    column: 1,
    endColumn: null,
    title: 'Unused',
    message: 'It is never read.',
  },
  { kind: 'output', step: 0, text: 'hello\n' },
  { kind: 'output', step: null, text: 'a word of its own\n' },
  {
    kind: 'step-ended',
    step: 0,
    at: 3,
    conclusion: 'timed_out',
    exitCode: null,
    fault: 'It took too long.',
    summary: '# All',
  },
  {
    kind: 'job-ended',
    job: 0,
    at: 4,
    conclusion: 'skipped',
    outputs: { version: '1' },
    fault: '',
  },
  {
    ...{ kind: 'job-ended', job: 1, at: 4, conclusion: 'failure', outputs: {} },
    ...{ fault: 'It has no label.', isTolerated: true },
  },
  { kind: 'run-ended', at: 5, conclusion: 'success', fault: '' },
]

test('every kind of entry is accepted in a report', () => {
  assert.deepEqual(checkBody(ReportBody, { first: 0, entries }), { first: 0, entries })
})

test('an invalid entry is rejected', () => {
  const [first] = entries
  for (const entry of [
    { ...first, more: 1 },
    { kind: 'other' },
    { kind: 'run-ended', at: 5, conclusion: 'skipped', fault: '' },
    { kind: 'output', step: -1, text: '' },
    { ...entries.find(({ kind }) => kind === 'annotation'), line: 0 },
    { ...entries.find(({ kind }) => kind === 'annotation'), level: 'failure' },
    null,
  ]) {
    assert.throws(() => checkBody(ReportBody, { first: 0, entries: [entry] }), /entries\/0/)
  }
})

test('the schemas and the type of an entry say the same', () => {
  // Each line compiles only as long as what it is given fits: that is the test.
  const checked: CheckedEntry[] = entries
  const unchecked: RunEntry[] = checked
  assert.equal(unchecked.length, entries.length)
})
