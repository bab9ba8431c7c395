import assert from 'node:assert/strict'
import { lstatSync, type Stats } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../test/support/git.ts'
import { isUnchanged, readFingerprint, toFingerprint } from './file-fingerprint.ts'

test('a fingerprint taken just after a change is unsettled, as another change may share its timestamp', async () => {
  await using folder = await temporaryFolder()
  const path = join(folder.path, 'file')
  await writeFile(path, 'one')
  const stats = lstatSync(path)
  const { ctimeMs } = stats
  const now = readFingerprint(path)
  for (const [at, expected] of [
    [ctimeMs - 1000, false],
    [ctimeMs, false],
    [ctimeMs + 200, false],
    [ctimeMs + 600, true],
  ] as const) {
    assert.equal(isUnchanged(toFingerprint(stats, at), now), expected, `${at - ctimeMs} ms after`)
  }
  // A file system that keeps whole seconds.
  const coarse: Stats = Object.assign(lstatSync(path), { ctimeMs: 5000 })
  assert.equal(toFingerprint(coarse, 6000).isSettled, false)
  assert.equal(toFingerprint(coarse, 9000).isSettled, true)
})

test('a replaced, written or removed file is changed; a missing one is unchanged', async () => {
  await using folder = await temporaryFolder()
  const path = join(folder.path, 'file')
  assert.equal(isUnchanged(readFingerprint(path), readFingerprint(path)), true)
  await writeFile(path, 'one')
  const first = toFingerprint(lstatSync(path), Date.now() + 10_000)
  assert.equal(isUnchanged(first, readFingerprint(path)), true)
  assert.equal(isUnchanged(undefined, readFingerprint(path)), false)
  await writeFile(`${path}.lock`, 'two')
  await rename(`${path}.lock`, path)
  assert.equal(isUnchanged(first, readFingerprint(path)), false)
  assert.equal(isUnchanged(first, undefined), false)
})
