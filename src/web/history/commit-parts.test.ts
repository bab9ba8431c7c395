import assert from 'node:assert/strict'
import { test } from 'node:test'
import { linkedText } from './commit-parts.ts'

const link = (text: string) => linkedText(text, new Map([['1a2b3c4', '/r/x/commit/1']])).text

test('a message has links to addresses and to commits', () => {
  assert.equal(
    link('See https://host.example/a, and 1a2b3c4.'),
    'See <a class="linked" href="https://host.example/a" rel="nofollow noreferrer">https://host.example/a</a>, and <a class="linked mono" href="/r/x/commit/1">1a2b3c4</a>.',
  )
})

test('an address whose host browsers read differently is text', () => {
  for (const text of ['http://evil.example\\@host.example/', 'https://a\\b'])
    assert.equal(link(text), text)
  assert.match(link('https://host.example/a\\b'), /^<a /)
})
