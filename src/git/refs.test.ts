import assert from 'node:assert/strict'
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../test/support/git.ts'
import { hasRefs, readRefs } from './refs.ts'

test('a look at the first of many packed refs leaves no file open', async () => {
  await using folder = await temporaryFolder()
  const lines = Array.from(
    { length: 5000 },
    (_, number) => `${'a'.repeat(40)} refs/tags/v${number}\n`,
  )
  await writeFile(
    join(folder.path, 'packed-refs'),
    `# pack-refs with: peeled sorted\n${lines.join('')}`,
  )
  const before = (await readdir('/proc/self/fd')).length
  for (let times = 0; times < 20; times++) {
    assert.equal(await hasRefs(folder.path), true)
    const read = await readRefs(folder.path, ['refs/tags/v1'])
    assert.equal(read.get('refs/tags/v1'), 'a'.repeat(40))
  }
  assert.equal((await readdir('/proc/self/fd')).length, before)
})
