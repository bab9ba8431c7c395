import assert from 'node:assert/strict'
import { mkdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../../test/support/git.ts'
import { runTool } from './launch.ts'
import { readSafely, writeFresh } from './workspace-files.ts'

test('only regular files up to a size limit are read', async () => {
  await using folder = await temporaryFolder()
  const at = (name: string) => join(folder.path, name)
  await writeFile(at('file'), 'four')
  await symlink('file', at('link'))
  await mkdir(at('folder'))
  await runTool(['/usr/bin/mkfifo', at('pipe')])
  assert.deepEqual(await readSafely(at('file'), 4), Buffer.from('four'))
  assert.equal(await readSafely(at('file'), 3), 'too-large')
  assert.equal(await readSafely(at('nothing'), 3), 'absent')
  assert.equal(await readSafely('/dev/zero', 3), 'not-a-file')
  for (const name of ['link', 'folder', 'pipe']) {
    assert.equal(await readSafely(at(name), 9), 'not-a-file', name)
  }
})

test('a file replaces a link, and the target of the link is kept', async () => {
  await using folder = await temporaryFolder()
  const [target, path] = [join(folder.path, 'target'), join(folder.path, 'link')]
  await writeFile(target, 'stays')
  await symlink(target, path)
  writeFresh(path, 'new')
  assert.equal(await readFile(target, 'utf8'), 'stays')
  assert.equal(await readFile(path, 'utf8'), 'new')
  assert.equal((await stat(path)).mode & 0o777, 0o600)
})
