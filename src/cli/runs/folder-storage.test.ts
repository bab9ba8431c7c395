import assert from 'node:assert/strict'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { temporaryFolder } from '../../../test/support/git.ts'
import { createFolderStorage } from './folder-storage.ts'

test('a cache is found while another job saves one', async () => {
  await using folder = await temporaryFolder()
  const { signal } = new AbortController()
  const storage = createFolderStorage({
    caches: join(folder.path, 'caches'),
    artifacts: join(folder.path, 'artifacts'),
    cachesMaxBytes: 1024 ** 2,
  })
  const save = () =>
    storage.saveCache({ key: 'deps', version: '1', content: Readable.from(['x']), signal })
  await save()
  let isSaving = true
  const saving = (async () => {
    for (let round = 0; round < 200; round++) await save()
  })().finally(() => {
    isSaving = false
  })
  while (isSaving) {
    const found = await storage.findCache({
      keys: ['deps'],
      version: '1',
      lookupOnly: true,
      signal,
    })
    assert.equal(found?.key, 'deps')
  }
  await saving
})
