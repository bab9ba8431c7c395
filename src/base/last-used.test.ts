import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { createLastUsed } from './last-used.ts'

test('a use is recorded every 30 s, one write at a time, in the background', async () => {
  const written: [string, number][] = []
  const errors: string[] = []
  let answer = Promise.withResolvers<void>()
  let now = 100_000
  const note = createLastUsed({
    clock: { now: () => now },
    write(id, at) {
      written.push([id, at])
      return answer.promise
    },
    onError: (error, id) => errors.push(`${id}: ${(error as Error).message}`),
  })
  note({ id: 'a', lastUsedAt: null })
  note({ id: 'a', lastUsedAt: null })
  note({ id: 'b', lastUsedAt: 70_001 })
  note({ id: 'b', lastUsedAt: 70_000 })
  assert.deepEqual(written.splice(0), [
    ['a', 100_000],
    ['b', 100_000],
  ])
  answer.reject(new Error('full'))
  await turn()
  assert.deepEqual(errors, ['a: full', 'b: full'])
  answer = Promise.withResolvers()
  now = 100_001
  note({ id: 'a', lastUsedAt: null })
  assert.deepEqual(written, [['a', 100_001]])
})
