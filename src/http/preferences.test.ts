import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hasPreference } from './preferences.ts'

test('a preference is found among others, in any case, with parameters', () => {
  for (const header of [
    'respond-async',
    'Respond-Async',
    'wait=10, respond-async',
    'return=minimal;a="b, c" ,respond-async; x=1',
    'a="\\", respond-async", respond-async',
  ]) {
    assert.ok(hasPreference(header, 'respond-async'), header)
  }
})

test('quoted text, parameters and parts of names are not preferences', () => {
  for (const header of [
    '',
    'wait=10; respond-async',
    'a=", respond-async"',
    'a="\\", respond-async',
    'respond-async-not',
    'respond-async=1',
    'a=", respond-async',
  ]) {
    assert.ok(!hasPreference(header, 'respond-async'), header)
  }
})
