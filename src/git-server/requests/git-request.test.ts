import assert from 'node:assert/strict'
import { test } from 'node:test'
import { protocolIn } from './git-request.ts'

test('the highest version of the protocol that a client names is used, and anything else is ignored', () => {
  for (const [requested, version] of [
    ['version=2', 'version=2'],
    ['version=1:version=2', 'version=2'],
    ['version=2:version=1', 'version=2'],
    ['foo:version=1:bar=2', 'version=1'],
    ['version=3', ''],
    ['version=12', ''],
    ['', ''],
  ] as const) {
    assert.equal(protocolIn(requested), version, requested)
  }
})
