import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Input } from '../workflow.ts'
import { readInputs } from './given-inputs.ts'

const plain: Input = {
  type: 'string',
  description: '',
  required: false,
  default: undefined,
  options: [],
}

const inputs: Record<string, Input> = {
  text: { ...plain, default: 'hello' },
  flag: { ...plain, type: 'boolean' },
  count: { ...plain, type: 'number' },
  level: { ...plain, type: 'choice', options: ['low', 'high'] },
  target: { ...plain, required: true },
}

test('inputs are completed by defaults', () => {
  assert.deepEqual(readInputs(inputs, { target: 'x' }), {
    values: { text: 'hello', flag: false, count: 0, level: 'low', target: 'x' },
  })
})

test('booleans and numbers may be given as strings', () => {
  const given = { text: '', flag: 'true', count: '-1.5e3', level: 'high', target: 'x' }
  assert.deepEqual(readInputs(inputs, given), {
    values: { text: '', flag: true, count: -1500, level: 'high', target: 'x' },
  })
})

test('all invalid inputs are reported', () => {
  const given = { text: 1, flag: 'yes', count: 'NaN', level: 'middle', txet: 'x', constructor: 1 }
  assert.deepEqual(readInputs(inputs, given), {
    faults: [
      { input: 'txet', message: 'The workflow has no input "txet". Did you mean "text"?' },
      { input: 'constructor', message: 'The workflow has no input "constructor".' },
      { input: 'text', message: '"text" must be a string.' },
      { input: 'flag', message: '"flag" must be true or false.' },
      { input: 'count', message: '"count" must be a number.' },
      { input: 'level', message: '"level" must be one of "low" or "high".' },
      { input: 'target', message: '"target" is required.' },
    ],
  })
  const tooLong = readInputs(inputs, { target: 'x'.repeat(65_536) })
  assert.ok('faults' in tooLong)
})
