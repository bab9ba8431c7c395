import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { knownPackBytes } from './packs.ts'

// Longer than a fingerprint needs to settle: see base/file-fingerprint.ts.
const settledMs = 600

test('the size of the packs follows every pack that comes or goes', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'svc-test-'))
  try {
    assert.equal(await knownPackBytes(directory), 0)
    const packs = join(directory, 'objects', 'pack')
    await mkdir(packs, { recursive: true })
    await writeFile(join(packs, 'pack-1.pack'), 'x'.repeat(10))
    assert.equal(await knownPackBytes(directory), 10)
    await writeFile(join(packs, 'pack-1.idx'), 'x'.repeat(5))
    assert.equal(await knownPackBytes(directory), 15)
    await sleep(settledMs)
    assert.equal(await knownPackBytes(directory), 15)
    assert.equal(await knownPackBytes(directory), 15)
    await rm(join(packs, 'pack-1.pack'))
    assert.equal(await knownPackBytes(directory), 5)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
})
