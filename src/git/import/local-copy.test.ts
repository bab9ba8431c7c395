import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { appendFileSync, truncateSync } from 'node:fs'
import { mkdir, readdir, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { temporaryFolder } from '../../../test/support/git.ts'
import { createSource } from '../../../test/support/hostile-objects.ts'
import { withoutMounts } from '../../../test/support/small-disk.ts'
import { copyRepository } from './local-copy.ts'
import { OpenedFolder } from './opened-folder.ts'

const execute = promisify(execFile)
const noMounts = await withoutMounts()

type Limits = { maxBytes?: number; maxEntries?: number; onProgress?: (bytes: number) => void }

async function copy(source: string, target: string, limits: Limits = {}): Promise<void> {
  await using folder = await OpenedFolder.open(source)
  const fixed = { objectFormat: 'sha1', signal: AbortSignal.timeout(60_000) } as const
  const options = { maxBytes: 1024 ** 3, ...fixed, ...limits }
  await copyRepository(folder, target, { onProgress: () => {}, ...options })
}

test('only the history is copied, readable by the owner alone', async () => {
  await using folder = await temporaryFolder()
  const source = await createSource(join(folder.path, 'source'), { isPacked: true })
  await mkdir(join(source, 'hooks'))
  await writeFile(join(source, 'hooks/update'), '', { mode: 0o777 })
  await writeFile(join(source, 'description'), 'x')
  await writeFile(join(source, 'objects/pack/evil'), 'x', { mode: 0o6777 })
  await writeFile(join(source, 'refs/heads/x.lock'), 'x')
  const target = join(folder.path, 'target')
  await copy(source, target)
  const names = ['HEAD', 'config', 'objects', 'packed-refs', 'refs']
  assert.deepEqual((await readdir(target)).sort(), names)
  const packs = await readdir(join(target, 'objects/pack'))
  assert.deepEqual(packs.map((name) => name.replace(/.*\./, '')).sort(), ['idx', 'pack'])
  for (const name of packs) {
    assert.equal((await stat(join(target, 'objects/pack', name))).mode & 0o7777, 0o600)
  }
  assert.deepEqual(await readdir(join(target, 'refs/heads')), [])
})

test('a file that grows during the copy is copied up to the limit', async () => {
  await using folder = await temporaryFolder()
  const source = await createSource(join(folder.path, 'source'), { isPacked: true })
  const [pack = ''] = (await readdir(join(source, 'objects/pack'))).filter((name) =>
    name.endsWith('.pack'),
  )
  const path = join(source, 'objects/pack', pack)
  // Its owner sees how far the copy is, and is always ahead of it.
  const onProgress = () => appendFileSync(path, Buffer.alloc(8192))
  const limits = { maxBytes: 1024 * 1024, onProgress }
  await assert.rejects(copy(source, join(folder.path, 'target'), limits), /source is too large/)
})

test('a source with too many files is rejected, however small they are', async () => {
  await using folder = await temporaryFolder()
  const source = await createSource(join(folder.path, 'source'))
  for (let number = 0; number < 50; number++) {
    await mkdir(join(source, 'refs', String(number)))
  }
  await copy(source, join(folder.path, 'enough'), { maxEntries: 100 })
  const limited = copy(source, join(folder.path, 'few'), { maxEntries: 50 })
  await assert.rejects(limited, /too many files; pack it first/)
})

test('a pack larger than the limit is rejected before it is copied', async () => {
  await using folder = await temporaryFolder()
  const source = await createSource(join(folder.path, 'source'))
  const pack = join(source, 'objects/pack', `pack-${'a'.repeat(40)}.pack`)
  await writeFile(pack, '')
  truncateSync(pack, 1024 ** 4)
  const target = join(folder.path, 'target')
  await assert.rejects(copy(source, target, { maxBytes: 4 * 1024 ** 2 }), /source is too large/)
  for (const name of await readdir(join(target, 'objects/pack'))) {
    assert.ok((await stat(join(target, 'objects/pack', name))).size <= 4 * 1024 ** 2)
  }
})

test('a directory that is mounted twice is recognized by both paths', {
  skip: noMounts,
}, async () => {
  await using folder = await temporaryFolder()
  const [data, mounted] = [join(folder.path, 'data'), join(folder.path, 'mounted')]
  await mkdir(join(data, 'a/b'), { recursive: true })
  await mkdir(mounted)
  await symlink(data, join(folder.path, 'link'))
  await execute('mount', ['--bind', data, mounted])
  try {
    await using inside = await OpenedFolder.open(join(mounted, 'a/b'))
    await using outside = await OpenedFolder.open(folder.path)
    assert.equal(await inside.isIn(data), true)
    assert.equal(await inside.isIn(join(folder.path, 'link')), true)
    assert.equal(await outside.isIn(data), false)
  } finally {
    await execute('umount', ['--lazy', mounted])
  }
})
