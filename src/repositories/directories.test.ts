import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { newId } from '../base/ids.ts'
import { createGit } from '../git/git-process.ts'
import { createDirectories } from './directories.ts'

const limits = { pushMaxBytes: 1e9, pushMemoryMaxBytes: 1e9 }
const git = createGit({ owner: '/nonexistent', path: process.env.PATH ?? '', ...limits })

test('what a killed git leaves is cleared away, and what belongs to the repository is not', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'svc-test-'))
  const directories = createDirectories({ dataDir, git, faultPoint: () => {} })
  await directories.prepare()
  const id = newId()
  await directories.create(id)
  const pack = (letter: string) => `objects/pack/pack-${letter.repeat(40)}`
  const kept = [`${pack('a')}.pack`, `${pack('a')}.rev`, `${pack('a')}.idx`, 'refs/heads/tmp_x']
  const left = [
    ...['packed-refs.lock', 'refs/heads/main.lock', 'objects/tmp_objdir-incoming-x/pack/y'],
    ...['objects/pack/tmp_pack_x', `${pack('a')}.keep`],
    // Its index would have come last.
    ...[`${pack('b')}.pack`, `${pack('b')}.rev`],
  ]
  for (const name of [...kept, ...left]) {
    const path = join(directories.pathOf(id), name)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, '')
  }
  await directories.tidy(id, Date.now())
  const files = readdirSync(directories.pathOf(id), { recursive: true }).map(String)
  for (const name of kept) assert.ok(files.includes(name), name)
  for (const name of left) assert.ok(!files.includes(name), name)
  rmSync(dataDir, { recursive: true })
})
