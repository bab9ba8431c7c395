import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Problem } from '../../base/problem.ts'
import { createMeasure, type Operation } from './operations.ts'

test('what came of an operation is told: a client that left is no refusal, and damage is no fault of the client', async () => {
  const told: Operation['outcome'][] = []
  const measure = createMeasure(({ outcome }) => told.push(outcome))
  const [here, gone] = [new AbortController(), new AbortController()]
  const left = new Problem('malformed_request', 'The client went away.')
  gone.abort(left)
  const act = measure('fetch', async (_request: { signal: AbortSignal }, result: unknown) => {
    if (result instanceof Error) throw result
    return result
  })
  const cases: [AbortController, unknown, Operation['outcome']][] = [
    [here, 0, 'done'],
    [here, 128, 'failed'],
    [here, 'refused', 'refused'],
    [here, null, 'cut_off'],
    [here, new Problem('git_busy', 'Busy.'), 'refused'],
    [here, new Problem('repository_damaged', 'Damaged.'), 'failed'],
    [here, new Error('x', { cause: new Problem('git_limit_exceeded', 'Too much.') }), 'refused'],
    [here, new Error('a bug'), 'failed'],
    [gone, left, 'cut_off'],
    [gone, new Error('a closed pipe'), 'cut_off'],
  ]
  for (const [{ signal }, result, outcome] of cases) {
    await act({ signal }, result).catch(() => {})
    assert.deepEqual(told.splice(0), [outcome])
  }
})
