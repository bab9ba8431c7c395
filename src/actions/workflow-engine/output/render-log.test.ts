import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RunEntry } from '../plan.ts'
import { createLogRenderer, renderPiece } from './render-log.ts'

const planned = (job: number, name: string): RunEntry => ({
  kind: 'job-planned',
  ...{ job, file: 'ci.yml', workflow: 'ci', id: name, name, matrix: '' },
})
const step = (number: number, job: number, name: string): RunEntry => ({
  kind: 'step-planned',
  ...{ job, step: number, name },
})
const started = (number: number): RunEntry => ({ kind: 'step-started', step: number, at: 1 })
const output = (number: number | null, text: string): RunEntry => ({
  kind: 'output',
  step: number,
  text,
})
const ended = (number: number, exitCode: number | null, fault = ''): RunEntry => ({
  kind: 'step-ended',
  ...{ step: number, at: 2, exitCode, fault, summary: '' },
  conclusion: exitCode === 0 ? 'success' : 'failure',
})

function render(...entries: RunEntry[]): string {
  return entries.map(createLogRenderer()).map(renderPiece).join('')
}

test('the log of one job has headings with its name, and unchanged output', () => {
  const log = render(
    planned(0, 'build'),
    step(0, 0, 'Test'),
    started(0),
    output(0, 'one\ntwo\n'),
    ended(0, 1),
    { kind: 'run-ended', at: 3, conclusion: 'failure', fault: '' },
  )
  assert.equal(log, '▶ build › Test\none\ntwo\n✗ exit code 1\n✗ failure\n')
})

test('a step that is named at its start has that name', () => {
  const log = render(planned(0, 'build'), step(0, 0, 'Release ${{ env.V }}'), {
    kind: 'step-started',
    ...{ step: 0, at: 1, name: 'Release\x1b 1.2' },
  })
  assert.equal(log, '▶ build › Release? 1.2\n')
})

test('with several jobs, each line has the name of its job', () => {
  const log = render(
    planned(0, 'a$1'),
    planned(1, 'b\x1b[2J'),
    step(0, 0, 'One'),
    step(1, 1, 'Two'),
    started(0),
    started(1),
    output(1, 'x\n\ny'),
    output(0, 'z\n'),
    ended(0, 0),
    ended(1, null, 'It took too long.'),
    output(null, 'The runner says something.\n'),
  )
  assert.equal(
    log,
    'a$1 | ▶ One\nb?[2J | ▶ Two\nb?[2J | x\nb?[2J | \nb?[2J | y\na$1 | z\nb?[2J | ✗ It took too long.\nThe runner says something.\n',
  )
})

test('a failure with continue-on-error is logged, a skipped step is not', () => {
  const log = render(
    planned(0, 'a'),
    step(0, 0, 'One'),
    step(1, 0, 'Two'),
    started(0),
    {
      kind: 'step-ended',
      step: 0,
      at: 1,
      conclusion: 'success',
      exitCode: 2,
      fault: '',
      summary: '',
    },
    {
      kind: 'step-ended',
      step: 1,
      at: 1,
      conclusion: 'skipped',
      exitCode: null,
      fault: '',
      summary: '',
    },
  )
  assert.equal(log, '▶ a › One\n✗ exit code 2; the job continues\n')
})
