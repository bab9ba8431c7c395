import assert from 'node:assert/strict'
import { renameSync, unlinkSync } from 'node:fs'
import { test } from 'node:test'
import { pathlessMessage } from './pathless-message.ts'

test('the folders in a system error are removed', () => {
  assert.equal(
    messageOf(() => unlinkSync('/nowhere/at/all')),
    "ENOENT: no such file or directory, unlink 'all'",
  )
  assert.equal(
    messageOf(() => renameSync('/nowhere/a', '/nowhere/b')),
    "ENOENT: no such file or directory, rename 'a' -> 'b'",
  )
})

test('other messages stay as they are', () => {
  assert.equal(pathlessMessage(new Error('in /nowhere')), 'in /nowhere')
})

function messageOf(act: () => void): string {
  try {
    act()
  } catch (error) {
    if (error instanceof Error) return pathlessMessage(error)
  }
  throw new Error('nothing was thrown')
}
