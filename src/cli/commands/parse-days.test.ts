import assert from 'node:assert/strict'
import { test } from 'node:test'
import { maxExpiryDays } from '#access/names.ts'
import { parseDays } from './parse-days.ts'

test('whole days within the limit are accepted, and never', () => {
  const texts = ['1', '30', String(maxExpiryDays), 'never', undefined]
  assert.deepEqual(texts.map(parseDays), [1, 30, maxExpiryDays, null, undefined])
})

test('anything else is rejected with the accepted values', () => {
  for (const text of ['0', '-1', '1.5', String(maxExpiryDays + 1), '', 'Never', 'NaN', 'Infinity'])
    assert.throws(() => parseDays(text), /--expires-in-days takes 1 to \d+, or never/, text)
})
