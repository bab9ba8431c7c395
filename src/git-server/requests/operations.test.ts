import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Problem } from '#base/problem.ts'
import { createMeasure, type Operation } from './operations.ts'

test("an operation reports its outcome: a disconnected client is not a refusal, and damage is not the client's fault", async () => {
  const reported: Operation['outcome'][] = []
  const measure = createMeasure(({ outcome }) => reported.push(outcome))
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
    assert.deepEqual(reported.splice(0), [outcome])
  }
})
