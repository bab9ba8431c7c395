import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTaskGroup } from './task-group.ts'

test('a task leaves the group when it settles', async () => {
  const group = createTaskGroup()
  const [first, second] = [Promise.withResolvers<string>(), Promise.withResolvers<never>()]
  const added = group.add(first.promise)
  const failing = group.add(second.promise)
  assert.equal(group.size(), 2)
  first.resolve('done')
  await group.next()
  assert.equal(group.size(), 1)
  assert.equal(await added, 'done')
  second.reject(new Error('failed'))
  await group.settled()
  assert.equal(group.size(), 0)
  await assert.rejects(failing, /failed/)
})
