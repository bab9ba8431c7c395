import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import fc from 'fast-check'
import { printable } from './format.ts'
import { shellWord } from './shell-word.ts'

/** Asserts that bash reads the words as these texts, and that a terminal shows all of them. */
function assertRead(texts: readonly string[]): void {
  const words = texts.map(shellWord)
  const script = `printf '%s\\0' ${words.join(' ')}`
  const printed = execFileSync('bash', ['-c', script], { encoding: 'utf8' })
  assert.deepEqual(printed.split('\0').slice(0, -1), texts)
  assert.deepEqual(words.map(printable), words)
}

test('bash reads a quoted word as the original text, and a terminal shows all of it', () => {
  const texts = ["it's", '', '-rf', '$(id)', 'a b', '\x1b[2J', "\u202e'\\", 'ü \u0085', '`x`!*?~']
  assertRead(texts)
})

test('bash reads any quoted text as the original', () => {
  const text = fc.string({ unit: 'grapheme', maxLength: 20 }).filter((one) => !one.includes('\0'))
  const texts = fc.array(text, { minLength: 1, maxLength: 50 })
  fc.assert(fc.property(texts, assertRead), { numRuns: 10 })
})
