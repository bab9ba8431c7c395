import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { test } from 'node:test'
import { countTasksOfUser, findProcess, processIds } from './processes.ts'

test('a workspace that was removed meanwhile has no processes', () => {
  assert.deepEqual(processIds('/proc/0/gone'), [])
  assert.equal(findProcess(1, '/proc/0/gone'), undefined)
  assert.ok(processIds().includes(process.pid))
})

test('the tasks of a user are its processes with their threads, and none of others', () => {
  const user = process.getuid?.() ?? 0
  const before = countTasksOfUser(user)
  const threads = readdirSync('/proc/self/task').length
  assert.ok(threads > 1 && before >= threads)
  // No user has this id.
  assert.equal(countTasksOfUser(2 ** 31 - 7), 0)
})
