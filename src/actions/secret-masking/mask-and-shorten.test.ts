import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { secretValues, shownPart } from '../../../test/support/secret-parts.ts'
import { headLength } from './forms.ts'
import { maskAndShorten } from './mask-and-shorten.ts'
import { createMasker } from './masker.ts'

test('a text is masked before it is shortened', () => {
  fc.assert(
    fc.property(secretValues, fc.nat(120), fc.integer({ min: 1, max: 120 }), (secret, at, max) => {
      const { mask } = createMasker([secret])
      const text = `${'~'.repeat(at)}${secret}${'~'.repeat(50)}`
      const shown = maskAndShorten(text, { mask, maxLength: max })
      assert.ok(shown.length <= max)
      assert.equal(shownPart(shown, secret), undefined)
    }),
  )
})

test('a text that fits is unchanged, and a longer one is cut between characters', () => {
  const mask = (text: string) => text
  assert.equal(maskAndShorten('abc', { mask, maxLength: 3 }), 'abc')
  assert.equal(maskAndShorten('abcd', { mask, maxLength: 3 }), 'ab…')
  assert.equal(maskAndShorten('a😀😀', { mask, maxLength: 3 }), 'a…')
})

test('the beginning of a text ends before what may be the beginning of a secret', () => {
  fc.assert(
    fc.property(secretValues, fc.nat(50), fc.nat(200), (secret, at, length) => {
      const { maskBeginning } = createMasker([secret])
      const beginning = `${'~'.repeat(at)}${secret}`.slice(0, at + length)
      const shown = maskBeginning(beginning)
      assert.equal(shownPart(shown, secret), undefined)
      // The index of forms may take a few characters before the end for the beginning of one.
      assert.ok(shown.startsWith('~'.repeat(Math.max(0, at - headLength))))
    }),
  )
  assert.equal(createMasker(['hunter2']).maskBeginning('a hunter2 and more'), 'a *** and more')
})
