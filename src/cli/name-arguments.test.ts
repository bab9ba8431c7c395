import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newId } from '#base/ids.ts'
import { nameArguments } from './name-arguments.ts'
import { operations } from './operations/client-operations.ts'

function name(command: string, given: string[], inClone?: string, hasPathOption = false) {
  const operation = operations.find((one) => one.command === command)
  assert.ok(operation, command)
  return nameArguments(operation, { given, hasPathOption, inClone })
}

/** Values of arguments that may be left out. */
const values: Record<string, string[]> = {
  '[run]': ['17', 'latest', newId()],
  '[push]': ['latest', newId()],
  '[cache]': [newId()],
  '[path]': ['src/', 'src/main.c', './README.md', '.', '..'],
}

test('in a clone, both the repository and what may be left out can stand alone', () => {
  const ofRepository = operations.filter(({ arguments: [first, second] = [] }) => {
    return first === 'repository' && second?.startsWith('[')
  })
  assert.ok(ofRepository.length > 10)
  for (const { command, arguments: [, optional = ''] = [] } of ofRepository) {
    const key = optional.slice(1, -1)
    assert.ok(values[optional], `${command}: ${optional}`)
    for (const value of values[optional])
      assert.deepEqual(name(command, [value], 'tour'), { repository: 'tour', [key]: value })
    for (const other of ['site', 'tour', 'v2.0', 'late'])
      assert.deepEqual(name(command, [other], 'tour'), { repository: other, [key]: '' }, command)
    assert.deepEqual(name(command, [], 'tour'), { repository: 'tour', [key]: '' })
    assert.deepEqual(name(command, ['site', '17'], 'tour'), { repository: 'site', [key]: '17' })
    // Outside, the first argument is always the repository.
    assert.deepEqual(name(command, ['17']), { repository: '17', [key]: '' })
    assert.throws(() => name(command, []), /Give the repository, or change to a clone of it/)
  }
})

test('in a clone, a check is of a push with a ref, or of another repository', () => {
  for (const [given, expected] of [
    [['push'], ['tour', 'push', '']],
    [
      ['push', 'main'],
      ['tour', 'push', 'main'],
    ],
    [
      ['site', 'push'],
      ['site', 'push', ''],
    ],
    [
      ['site', 'deleteRepository'],
      ['site', 'deleteRepository', ''],
    ],
    [
      ['site', 'push', 'main'],
      ['site', 'push', 'main'],
    ],
  ] as const)
    assert.deepEqual(Object.values(name('check', [...given], 'tour')), expected)
})

test('a path is an argument or an option', () => {
  for (const command of ['browse file', 'browse blame']) {
    const inTour = { repository: 'tour', path: 'README.md' }
    assert.deepEqual(name(command, ['README.md'], 'tour'), inTour)
    assert.deepEqual(name(command, ['tour', 'README.md']), inTour)
    assert.deepEqual(name(command, ['site'], 'tour', true), { repository: 'site' })
    assert.deepEqual(name(command, [], 'tour', true), { repository: 'tour' })
    assert.throws(() => name(command, ['README.md']), /Give the repository, or change to a clone/)
    assert.throws(() => name(command, [], 'tour'), /Give the path; svc browse \w+ --help/)
    assert.throws(() => name(command, ['site', 'x'], 'tour', true), /Give the path once/)
  }
})
