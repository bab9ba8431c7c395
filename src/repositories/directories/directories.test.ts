import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { newId } from '#base/ids.ts'
import { createGit } from '#git/process/git-process.ts'
import { gitLimits } from '../../../test/support/git-limits.ts'
import { createDirectories } from './directories.ts'

const git = createGit({ owner: '/nonexistent', path: process.env.PATH ?? '', settings: gitLimits })

test('leftovers of a killed git are removed, and files of the repository are not', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'svc-test-'))
  const directories = createDirectories({ dataDir, git, faultPoint: () => {} })
  await directories.prepare(async () => {})
  const id = newId()
  await directories.create(id, 'sha1')
  const pack = (letter: string) => `objects/pack/pack-${letter.repeat(40)}`
  const sum = 'c'.repeat(40)
  const kept = [
    ...[`${pack('a')}.pack`, `${pack('a')}.rev`, `${pack('a')}.idx`, 'refs/heads/tmp_x'],
    ...['objects/pack/multi-pack-index', `objects/pack/multi-pack-index-${sum}.bitmap`],
    ...['objects/info/commit-graphs/commit-graph-chain', `${pack('e')}.idx`, `${pack('e')}.pack`],
  ]
  const left = [
    ...['packed-refs.lock', 'refs/heads/main.lock', 'objects/tmp_objdir-incoming-x/pack/y'],
    ...['objects/pack/tmp_pack_x', `${pack('a')}.keep`],
    // Its index would have come last.
    ...[`${pack('b')}.pack`, `${pack('b')}.rev`],
    // Older gits take away the pack first.
    `${pack('f')}.idx`,
    ...[
      'multi-pack-index.lock',
      `multi-pack-index-${'d'.repeat(40)}.bitmap`,
      '.tmp-7-pack-x.idx',
    ].map((name) => `objects/pack/${name}`),
    ...['commit-graph-chain.lock', 'tmp_graph_x'].map(
      (name) => `objects/info/commit-graphs/${name}`,
    ),
  ]
  // A pruned pack that was on its way back, and one that never got there.
  const pruned = [`svc-expired/pack-${'e'.repeat(40)}.idx`, 'svc-expired/pack-half.pack']
  const origins = kept.filter((name) => name !== `${pack('e')}.idx`)
  for (const name of [...origins, ...left, ...pruned]) {
    const path = join(directories.pathOf(id), name)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, Buffer.from(name.endsWith('/multi-pack-index') ? sum : '', 'hex'))
  }
  await directories.cleanUp(id, Date.now())
  const files = readdirSync(directories.pathOf(id), { recursive: true }).map(String)
  for (const name of kept) assert.ok(files.includes(name), name)
  assert.ok(!files.includes('svc-expired'))
  for (const name of left) assert.ok(!files.includes(name), name)
  rmSync(dataDir, { recursive: true })
})
