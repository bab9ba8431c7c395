import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { compareVersions } from './version-order.ts'

test('numbers count as such, and pre-releases come before their version', () => {
  const ordered = [
    ...['1.0', '1.02', '1.2', '1.10', 'nightly-2026-09-30', 'nightly-2026-10-01'],
    ...['v1.9', 'v1.10-beta2', 'v1.10-rc1', 'v1.10-rc10', 'v1.10', 'v1.10+build', 'v1.10.1'],
    ...['v2', `v${'9'.repeat(40)}`],
  ]
  assert.deepEqual(ordered.toReversed().sort(compareVersions), ordered)
})

test('any names have one order', () => {
  const name = fc
    .array(fc.constantFrom('v', '.', '-', '-rc', '+', '0', '1', '01', '10', 'é'), { maxLength: 6 })
    .map((parts) => parts.join(''))
  fc.assert(
    fc.property(name, name, name, (a, b, c) => {
      assert.equal(Math.sign(compareVersions(a, b)), -Math.sign(compareVersions(b, a)) + 0)
      assert.equal(compareVersions(a, b) === 0, a === b)
      if (compareVersions(a, b) <= 0 && compareVersions(b, c) <= 0)
        assert.ok(compareVersions(a, c) <= 0)
    }),
  )
})
