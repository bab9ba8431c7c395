import assert from 'node:assert/strict'
import { test } from 'node:test'
import { protocolIn } from './git-request.ts'

test('a client gets the highest version that it names, among whatever else it says', () => {
  for (const [asked, version] of [
    ['version=2', 'version=2'],
    ['version=1:version=2', 'version=2'],
    ['version=2:version=1', 'version=2'],
    ['foo:version=1:bar=2', 'version=1'],
    ['version=3', ''],
    ['version=12', ''],
    ['', ''],
  ] as const) {
    assert.equal(protocolIn(asked), version, asked)
  }
})
