import assert from 'node:assert/strict'
import { test } from 'node:test'
import { weighPushes } from './count-pushes.ts'

const push = (repositoryId: string, pushId: string) => ({
  kind: 'push',
  repositoryId,
  data: JSON.stringify({ pushId }),
})

test('a push counts once per four refs, and pushes add up', () => {
  const many = Array.from({ length: 9 }, () => push('a', 'many'))
  const { weights, pushed } = weighPushes([...many, push('a', 'one'), push('b', 'two')], 50)
  assert.deepEqual(
    [...weights],
    [
      ['a', 4],
      ['b', 1],
    ],
  )
  assert.deepEqual([...pushed], ['a', 'b'])
})

test('an import has a weight of its own, and other events have none', () => {
  const events = [
    { kind: 'repository.imported', repositoryId: 'a', data: '{}' },
    push('a', 'one'),
    { kind: 'repository.renamed', repositoryId: 'b', data: '{}' },
    { kind: 'token.created', repositoryId: null, data: '{}' },
  ]
  const { weights, pushed } = weighPushes(events, 50)
  assert.deepEqual([...weights], [['a', 51]])
  assert.deepEqual([...pushed], ['a'])
})
