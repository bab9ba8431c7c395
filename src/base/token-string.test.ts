import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isTokenString, newTokenString } from './token-string.ts'

test('the checksum matches a published test vector', () => {
  assert.ok(isTokenString(`svc_${'a'.repeat(30)}1yLcDB`))
})

test('new tokens are well formed and unique', () => {
  const tokens = new Set(Array.from({ length: 1000 }, newTokenString))
  assert.equal(tokens.size, 1000)
  for (const token of tokens) assert.ok(isTokenString(token), token)
})

test('a mistyped token is recognized', () => {
  const token = newTokenString()
  for (let place = 0; place < token.length; place++) {
    const other = token[place] === 'x' ? 'y' : 'x'
    assert.ok(!isTokenString(token.slice(0, place) + other + token.slice(place + 1)))
  }
  for (const text of ['', 'svc_', `${token}0`, ` ${token}`, token.toUpperCase()]) {
    assert.ok(!isTokenString(text))
  }
})
