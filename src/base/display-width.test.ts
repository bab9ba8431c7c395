import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cutToWidth, displayWidth } from './display-width.ts'

test('a text takes as many columns as a terminal shows', () => {
  for (const [text, width] of [
    ['', 0],
    ['main', 4],
    ['Zoë', 3],
    ['Zoe\u0308', 3],
    ['日本語', 6],
    ['한국', 4],
    ['😀', 2],
    ['🇫🇷', 2],
    ['…', 1],
  ] as const) {
    assert.equal(displayWidth(text), width, text)
  }
})

test('a text is cut between characters', () => {
  assert.equal(cutToWidth('main', 4), 'main')
  assert.equal(cutToWidth('feature', 4), 'fea…')
  assert.equal(cutToWidth('日本語', 5), '日本…')
  assert.equal(cutToWidth('日本語', 4), '日…')
  assert.equal(cutToWidth('😀😀', 3), '😀…')
  assert.equal(cutToWidth('Zoe\u0308 Zoe', 4), 'Zoe\u0308…')
})
