import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Json } from '#base/json.ts'
import { expandMatrix, MatrixError } from './matrix.ts'

const valuesOf = (matrix: Json) => expandMatrix(matrix).map(({ values }) => values)
const labelsOf = (matrix: Json) => expandMatrix(matrix).map(({ label }) => label)

test('vectors are combined in order, the first varying slowest', () => {
  assert.deepEqual(valuesOf({ version: [10, 12], os: ['linux', 'mac'] }), [
    { version: 10, os: 'linux' },
    { version: 10, os: 'mac' },
    { version: 12, os: 'linux' },
    { version: 12, os: 'mac' },
  ])
})

test("GitHub's example of include gives the six jobs that its documentation names", () => {
  const matrix = {
    fruit: ['apple', 'pear'],
    animal: ['cat', 'dog'],
    include: [
      { color: 'green' },
      { color: 'pink', animal: 'cat' },
      { fruit: 'apple', shape: 'circle' },
      { fruit: 'banana' },
      { fruit: 'banana', animal: 'cat' },
    ],
  }
  assert.deepEqual(valuesOf(matrix), [
    { fruit: 'apple', animal: 'cat', color: 'pink', shape: 'circle' },
    { fruit: 'apple', animal: 'dog', color: 'green', shape: 'circle' },
    { fruit: 'pear', animal: 'cat', color: 'pink' },
    { fruit: 'pear', animal: 'dog', color: 'green' },
    { fruit: 'banana' },
    { fruit: 'banana', animal: 'cat' },
  ])
  assert.deepEqual(labelsOf(matrix), [
    'apple, cat',
    'apple, dog',
    'pear, cat',
    'pear, dog',
    'banana',
    'banana, cat',
  ])
})

test("GitHub's example of exclude leaves nine of the twelve combinations", () => {
  const excluded = [
    { os: 'macos-latest', version: 12, environment: 'production' },
    { os: 'windows-latest', version: 16 },
  ]
  const matrix = {
    os: ['macos-latest', 'windows-latest'],
    version: [12, 14, 16],
    environment: ['staging', 'production'],
    exclude: excluded,
  }
  const values = valuesOf(matrix)
  assert.equal(values.length, 9)
  for (const gone of excluded) {
    const keeps = values.some((one) =>
      Object.entries(gone).every(([key, value]) => one[key] === value),
    )
    assert.equal(keeps, false)
  }
})

test('a matrix with only include has a job per entry, named by all values', () => {
  const matrix = {
    include: [
      { site: 'production', center: 'a' },
      { site: 'staging', center: 'b' },
    ],
  }
  assert.deepEqual(valuesOf(matrix), matrix.include)
  assert.deepEqual(labelsOf(matrix), ['production, a', 'staging, b'])
})

test('include applies after exclude, and can restore a combination', () => {
  const matrix = { os: ['a', 'b'], exclude: [{ os: 'b' }], include: [{ os: 'b', extra: true }] }
  assert.deepEqual(valuesOf(matrix), [{ os: 'a' }, { os: 'b', extra: true }])
})

test('objects are values: by their leaves in the name, by their parts in exclude', () => {
  const matrix = {
    node: [
      { version: 14, env: 'A=1' },
      { version: 20, env: 'B=2' },
    ],
    exclude: [{ node: { version: 14 } }],
  }
  assert.deepEqual(labelsOf(matrix), ['20, B=2'])
})

test('numbers and strings with equal text are equal', () => {
  assert.deepEqual(valuesOf({ node: [6, 8], exclude: [{ node: '6' }] }), [{ node: 8 }])
})

test('names and values are compared without regard to case', () => {
  const matrix = {
    Os: ['Linux', 'macOS'],
    exclude: [{ os: 'macos' }],
    include: [{ OS: 'LINUX', extra: true }],
  }
  assert.deepEqual(valuesOf(matrix), [{ Os: 'LINUX', extra: true }])
})

test('a matrix that cannot be expanded has an error', () => {
  const long = Array.from({ length: 17 }, (_, index) => index)
  const cases: [Json, RegExp][] = [
    [{ a: long, b: long }, /more than 256 jobs/],
    [{ include: Array.from({ length: 257 }, () => ({ a: 1 })) }, /more than 256 jobs/],
    [{ a: [] }, /a has no values/],
    [{ a: 'text' }, /a is not a list/],
    [{ a: [1], exclude: [{ a: 1 }] }, /no combinations/],
    [{ a: [1], include: 'x' }, /include is not a list/],
    [{ a: [1], include: ['x'] }, /entry of the matrix's include is not an object/],
    ['x', /is not an object/],
    [{}, /no combinations/],
  ]
  for (const [matrix, message] of cases) {
    assert.throws(
      () => expandMatrix(matrix),
      (error: unknown) => error instanceof MatrixError && message.test(error.message),
    )
  }
})
