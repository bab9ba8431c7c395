import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { readFingerprint } from '#base/file-fingerprint.ts'
import { until } from '../../../test/support/condition.ts'
import { temporaryFolder } from '../../../test/support/git.ts'
import { clonePacksFile, readClonePacks, writeClonePacks } from './clone-packs.ts'

test('concurrent readers of a record get the same one', async () => {
  await using folder = await temporaryFolder()
  const pack = { name: `pack-${'a'.repeat(40)}`, objects: 1, bytes: 100 }
  await writeClonePacks(folder.path, [{ tips: new Set(['b'.repeat(40)]), packs: [pack] }])
  const path = join(folder.path, clonePacksFile)
  await until('the record is settled', () => readFingerprint(path)?.isSettled)
  const [one, other] = await Promise.all([readClonePacks(folder.path), readClonePacks(folder.path)])
  assert.deepEqual(one[0]?.packs, [pack])
  assert.equal(one, other)
  assert.equal(await readClonePacks(folder.path), one)
})
