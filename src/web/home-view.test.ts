import assert from 'node:assert/strict'
import { test } from 'node:test'
import { activityTicks, pushLine, withoutRepeated } from './home-pages.ts'

test('pushes are a line with a text, and nothing where there are none', () => {
  assert.match(pushLine([0, 0, 1200]).text, /aria-label="1,200 pushes in 13 weeks"/)
  assert.doesNotMatch(pushLine([0, 0, 0]).text, /<svg/)
})

test('runs are ticks whose text has the same numbers', () => {
  const run = (number: number, conclusion: 'success' | 'failure' | null) => ({
    number,
    status: conclusion === null ? ('running' as const) : ('completed' as const),
    conclusion,
  })
  const { text } = activityTicks([run(1, 'success'), run(2, 'failure'), run(3, null)])
  assert.match(text, /aria-label="Last 3 runs: 1 succeeded, 1 failed, 1 in progress"/)
  assert.equal(text.match(/<circle/g)?.length, 10)
  assert.match(activityTicks([]).text, /aria-label="No runs"/)
})

test('of a push and of a run only the newest event is listed', () => {
  const event = (seq: number, kind: 'push' | 'workflow', data: Record<string, unknown>) => ({
    ...{ seq, kind, data, repositoryId: 'x', repoName: 'x', createdAt: 0 },
    actor: { id: 'x', username: 'x' },
  })
  const events = [
    event(4, 'workflow', { runId: 'a' }),
    event(3, 'push', { pushId: 'p' }),
    event(2, 'push', { pushId: 'p' }),
    event(1, 'workflow', { runId: 'a' }),
  ]
  assert.deepEqual(
    withoutRepeated(events).map(({ seq }) => seq),
    [4, 3],
  )
})
