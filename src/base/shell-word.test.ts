import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import fc from 'fast-check'
import { printable } from './format.ts'
import { shellWord } from './shell-word.ts'

const read = (word: string) =>
  execFileSync('bash', ['-c', `printf %s ${word}`], { encoding: 'utf8' })

test('bash reads a quoted word as the original text, and a terminal shows all of it', () => {
  const texts = ["it's", '', '-rf', '$(id)', 'a b', '\x1b[2J', "\u202e'\\", 'ü \u0085', '`x`!*?~']
  for (const text of texts) {
    const word = shellWord(text)
    assert.equal(read(word), text)
    assert.equal(printable(word), word)
  }
})

test('bash reads any quoted text as the original', () => {
  const text = fc.string({ unit: 'grapheme', maxLength: 20 }).filter((one) => !one.includes('\0'))
  fc.assert(
    fc.property(text, (one) => {
      const word = shellWord(one)
      assert.equal(read(word), one)
      assert.equal(printable(word), word)
    }),
    { numRuns: 50 },
  )
})
