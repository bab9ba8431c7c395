import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdir, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import {
  createProject,
  type Project,
  spawnGit,
  temporaryFolder,
} from '../../../test/support/git.ts'
import { readPack, readSmallPack } from './pack.ts'

/** Has git store what a push of a commit would send, completed like in a quarantine; the object directory. */
async function quarantined(project: Project, path: string, commit: string, known: string[]) {
  await mkdir(join(path, 'pack'), { recursive: true })
  const packing = spawnGit(project.path, [
    ...['pack-objects', '--revs', '--thin', '--stdout', '--quiet', '--delta-base-offset'],
  ])
  const target = join(path, 'pack', 'pack-new.pack')
  const indexing = spawnGit(project.path, ['index-pack', '--stdin', '--fix-thin', target])
  packing.stdin.end([commit, ...known.map((id) => `^${id}`), ''].join('\n'))
  packing.stdout.pipe(indexing.stdin)
  indexing.stdout.resume()
  const [exitCode] = await once(indexing, 'close')
  assert.equal(exitCode, 0)
  return path
}

async function createHistory(): Promise<{ project: Project; known: string; tip: string }> {
  const project = await createProject()
  const text = Array.from({ length: 400 }, (_, number) => `line ${number} of the text\n`)
  const known = await project.commit('text', text.join(''))
  for (let number = 0; number < 12; number++) {
    text[number * 30] = `changed ${number}\n`
    await project.commit('text', text.join(''))
  }
  await project.git('tag', '-a', '-m', 'Version 1', 'v1')
  return { project, known, tip: await project.git('rev-parse', 'v1') }
}

test('commits, files and tags of a thin pack are read as git reads them', async () => {
  const { project, known, tip } = await createHistory()
  await using _ = project
  await using folder = await temporaryFolder()
  const path = await quarantined(project, folder.path, tip, [known])
  const objects = (await readSmallPack(path)) ?? []
  const types = Map.groupBy(objects, ({ type }) => type)
  assert.deepEqual([types.get('commit')?.length, types.get('tag')?.length], [12, 1])
  assert.ok((types.get('blob')?.length ?? 0) >= 12)
  for (const { id, type, content } of objects) {
    const printed = await project.git('cat-file', type, id)
    assert.equal(content.toString().trim(), printed, id)
  }
})

test('a pack over a limit is left to git', async () => {
  await using project = await createProject()
  await using folder = await temporaryFolder()
  const many = await project.commit('zeros', '\0'.repeat(2 * 1024 * 1024))
  assert.equal(await readSmallPack(await quarantined(project, folder.path, many, [])), undefined)
  await mkdir(join(folder.path, 'empty', 'pack'), { recursive: true })
  assert.equal(await readSmallPack(join(folder.path, 'empty')), undefined)
})

test('a pack that is cut or damaged is left to git, or read in part, without an error', async () => {
  const { project, known, tip } = await createHistory()
  await using _ = project
  await using folder = await temporaryFolder()
  const path = join(await quarantined(project, folder.path, tip, [known]), 'pack')
  const pack = (await readdir(path)).find((name) => name.endsWith('.pack')) ?? ''
  const bytes = await readFile(join(path, pack))
  for (let length = 0; length < bytes.length; length += 7) {
    assert.equal(readPack(bytes.subarray(0, length), 500, 'sha1'), undefined)
    const damaged = Buffer.from(bytes)
    damaged[length] = (damaged[length] ?? 0) ^ 0xff
    readPack(damaged, 500, 'sha1')
  }
})
