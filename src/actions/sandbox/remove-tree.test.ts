import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { temporaryFolder } from '../../../test/support/git.ts'
import { systemPath } from '../../../test/support/sandbox.ts'
import { findTools, removeTree } from './tools.ts'

const tools = findTools(systemPath)

test('a directory is removed with all its contents, few files or many', async () => {
  for (const count of [0, 3, 500]) {
    await using outer = await temporaryFolder()
    const folder = join(outer.path, 'workspace')
    await mkdir(join(folder, 'deep', 'deeper'), { recursive: true })
    for (let file = 0; file < count; file++) await writeFile(join(folder, 'deep', `${file}`), '')
    await removeTree(folder, tools)
    assert.equal(existsSync(folder), false, `${count} files`)
  }
})

test('targets of links are kept', async () => {
  await using outer = await temporaryFolder()
  const [folder, kept] = [join(outer.path, 'workspace'), join(outer.path, 'kept')]
  for (const path of [folder, kept]) await mkdir(path)
  await writeFile(join(kept, 'file'), 'precious')
  await symlink(kept, join(folder, 'to-a-folder'))
  await symlink(join(kept, 'file'), join(folder, 'to-a-file'))
  await removeTree(folder, tools)
  assert.equal(existsSync(folder), false)
  assert.equal(await readFile(join(kept, 'file'), 'utf8'), 'precious')
})

test('names that are not UTF-8 are removed, and directories deeper than PATH_MAX', async () => {
  await using outer = await temporaryFolder()
  const folder = join(outer.path, 'workspace')
  await mkdir(folder)
  await writeFile(Buffer.concat([Buffer.from(`${folder}/`), Buffer.from([0xff, 0xfe])]), '')
  await removeTree(folder, tools)
  assert.equal(existsSync(folder), false)
  await mkdir(folder)
  const deepen = 'for (1..40) { mkdir "0" x 200 and chdir "0" x 200 or die $! }'
  await promisify(execFile)('perl', ['-e', deepen], { cwd: folder })
  await removeTree(folder, tools)
  assert.equal(existsSync(folder), false)
})

test('removing a missing directory is not an error', async () => {
  await using outer = await temporaryFolder()
  await removeTree(join(outer.path, 'workspace'), tools)
})
