import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../../test/support/git.ts'
import { openSourcePack } from './run-source.ts'

test('a header of any length ends at the first line feed', async () => {
  await using folder = await temporaryFolder()
  const path = join(folder.path, 'source')
  for (const count of [0, 10, 5000]) {
    const refs = Object.fromEntries(
      Array.from({ length: count }, (_, n) => [`refs/tags/v${n}`, 'a'.repeat(40)]),
    )
    const header = { commit: 'b'.repeat(40), ref: 'refs/heads/main', refs, shallow: [] }
    const line = `${JSON.stringify(header)}\n`
    await writeFile(path, Buffer.concat([Buffer.from(line), Buffer.from([0x50, 0x0a, 0xff])]))
    assert.deepEqual(await openSourcePack(path), { path, header, packStart: line.length })
  }
})

test('a file without a header is rejected', async () => {
  await using folder = await temporaryFolder()
  const path = join(folder.path, 'source')
  for (const content of ['', 'PACK', 'PACK\n', '{"commit":']) {
    await writeFile(path, content)
    await assert.rejects(openSourcePack(path), /has no header/)
  }
})
