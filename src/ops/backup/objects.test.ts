import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { newId } from '#base/ids.ts'
import { lock } from '#config/data-directory.ts'
import { createGit } from '#git/process/git-process.ts'
import { createDirectories } from '#repositories/directories/directories.ts'
import { gitLimits } from '../../../test/support/git-limits.ts'
import { createBackupFolder } from './backup-folder.ts'
import { addObjects } from './objects.ts'
import { listFolder } from './tree.ts'

const git = createGit({ owner: '/nonexistent', path: process.env.PATH ?? '', settings: gitLimits })

for (const isRestored of [false, true]) {
  const what = isRestored ? 'deleted and restored' : 'removed'
  test(`objects of a repository that is ${what} at any moment of their copying are in the backup`, async () => {
    for (let moveAt = 1; moveAt <= 4; moveAt++) await copyWhileMoving(moveAt, isRestored)
  })
}

async function copyWhileMoving(moveAt: number, isRestored: boolean): Promise<void> {
  const root = await mkdtemp(join(tmpdir(), 'svc-test-'))
  const [dataDir, backup] = [join(root, 'data'), join(root, 'backup')]
  await mkdir(dataDir)
  await mkdir(backup)
  const directories = createDirectories({ dataDir, git, faultPoint: () => {} })
  await directories.prepare(async () => {})
  const id = newId()
  await directories.create(id, 'sha1')
  const object = `ab/${'c'.repeat(38)}`
  const objects = join(directories.pathOf(id), 'objects')
  await mkdir(join(objects, 'ab'))
  await writeFile(join(objects, object), 'an object')
  const tree = await listFolder(backup)
  const folder = createBackupFolder({
    root: backup,
    tree,
    previous: undefined,
    recheck: false,
    faultPoint: () => {},
  })
  using _held = await lock(dataDir, 'backup', 0)
  let located = 0
  const moving = {
    ...directories,
    async locate(wanted: string) {
      await directories.moveFromDeleted(wanted)
      const found = await directories.locate(wanted)
      located += 1
      if (located === moveAt)
        await (isRestored ? directories.moveToDeleted(wanted) : directories.remove(wanted))
      return found
    },
  }
  await addObjects({ directories: moving, folder, id })
  const { files } = await listFolder(backup)
  assert.ok(files.has(`repositories/${id}/${object}`), `moved at ${moveAt}`)
  assert.ok(folder.totalBytes() > 0, `left out when moved at ${moveAt}`)
  await rm(root, { recursive: true })
}
