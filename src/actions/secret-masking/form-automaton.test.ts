import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRandom } from '../../../test/support/random.ts'
import { FormAutomaton, type FormState } from './form-automaton.ts'

test('beyond its states, an automaton knows none that it would have had to create, however often it is asked', () => {
  const random = createRandom(1)
  const letters = 'abcdefghijklmnopqrstuvwxyz'
  const form = () => Array.from({ length: 40 }, () => letters[random.below(26)]).join('')
  const forms = Array.from({ length: 40_000 }, form)
  const automaton = new FormAutomaton(forms.map((bytes) => ({ bytes, whole: undefined })))
  const text = Buffer.from(forms.join(''), 'latin1')
  let state: FormState = automaton.root
  for (const byte of text) {
    const next = automaton.step(state, byte)
    if (next === undefined) {
      assert.equal(automaton.step(state, byte), undefined)
      return
    }
    assert.ok(next === automaton.root || next.suffix !== undefined)
    state = next
  }
  assert.fail('The text has too few states.')
})
