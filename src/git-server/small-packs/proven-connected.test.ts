import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { type ObjectReader, ObjectTooLargeError } from '#git/objects/object-reader.ts'
import { type PackedObject, readSmallPack } from '#git/objects/pack.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import {
  createProject,
  type Project,
  spawnGit,
  temporaryFolder,
} from '../../../test/support/git.ts'
import { proveConnected } from './proven-connected.ts'

type Pushed = { objects: PackedObject[]; before: string; after: string }

/** Whether a push onto a branch is proven. */
const isProvenConnected = async (
  { objects, ...update }: Pushed,
  reader: Pick<ObjectReader, 'read'>,
) => {
  const isReached = async (id: string) => id === update.before
  return (await proveConnected({ objects, update, reader, isReached })) !== undefined
}

/** Reads from the repository of a project; counts what is read. */
function readerOf(project: Project) {
  const read: string[] = []
  const reader: Pick<ObjectReader, 'read'> = {
    async read(id) {
      read.push(id)
      const type = await project.git('cat-file', '-t', id)
      const child = spawnGit(project.path, ['cat-file', type, id])
      const content = Buffer.concat(await child.stdout.toArray())
      return { id, type, content }
    },
  }
  return { reader, read }
}

/** The objects of a push, completed with the bases of their deltas, as in its quarantine. */
async function objectsOf(project: Project, before: string, after: string): Promise<PackedObject[]> {
  await using folder = await temporaryFolder()
  await mkdir(join(folder.path, 'pack'))
  const packing = spawnGit(project.path, ['pack-objects', '--revs', '--thin', '--stdout', '-q'])
  packing.stdin.end(`${after}\n${before && `^${before}\n`}`)
  const target = join(folder.path, 'pack', 'pack-1.pack')
  const indexing = spawnGit(project.path, ['index-pack', '--stdin', '--fix-thin', target])
  packing.stdout.pipe(indexing.stdin)
  assert.deepEqual(await once(indexing, 'close'), [0, null])
  const objects = await readSmallPack(folder.path)
  assert.ok(objects)
  return objects
}

async function createTree(project: Project) {
  for (const name of ['a.txt', 'src/b.txt', 'src/deep/c.txt', 'doc/d.txt', 'new/e.txt']) {
    await mkdir(join(project.path, dirname(name)), { recursive: true })
    if (!name.startsWith('new/')) await project.commit(name, `${name}\n`)
  }
  return await project.git('rev-parse', 'HEAD')
}

test('commits that change, add and remove files, and rename them within a folder, are proven', async () => {
  await using project = await createProject()
  const before = await createTree(project)
  await project.commit('src/deep/c.txt', 'changed\n')
  await project.commit('new/e.txt', 'new\n')
  await project.git('mv', 'src/b.txt', 'src/f.txt')
  await project.git('mv', 'doc', 'papers')
  await project.git('rm', '--quiet', 'a.txt')
  await project.git('commit', '--quiet', '-m', 'Rename')
  await project.git('revert', '--no-edit', 'HEAD')
  const after = await project.git('rev-parse', 'HEAD')
  const objects = await objectsOf(project, before, after)
  const { reader, read } = readerOf(project)
  assert.equal(await isProvenConnected({ objects, before, after }, reader), true)
  assert.ok(read.length <= 5, read.join(' '))
})

test('without any one of its new objects, a push is not proven', async () => {
  await using project = await createProject()
  const before = await createTree(project)
  await project.commit('src/deep/c.txt', 'changed\n')
  const after = await project.commit('new/e.txt', 'new\n')
  const objects = await objectsOf(project, before, after)
  const { reader } = readerOf(project)
  const list = await project.git('rev-list', '--objects', '--no-object-names', after, `^${before}`)
  const needed = list.split('\n')
  assert.ok(needed.length > 8)
  for (const id of needed) {
    const rest = objects.filter((object) => object.id !== id)
    assert.equal(rest.length, objects.length - 1)
    const found = await isProvenConnected({ objects: rest, before, after }, reader)
    assert.equal(found, false, id)
  }
  // An object of another type does not replace one.
  for (const id of needed) {
    const others = objects.map((object) =>
      object.id === id ? { ...object, type: 'tag' as const } : object,
    )
    const found = await isProvenConnected({ objects: others, before, after }, reader)
    assert.equal(found, false, id)
  }
})

test('a push is not proven when the old tree is too large to be read, or missing', async () => {
  await using project = await createProject()
  const before = await createTree(project)
  const after = await project.commit('added.txt', 'added\n')
  const objects = await objectsOf(project, before, after)
  const root = await project.git('rev-parse', `${before}^{tree}`)
  const rest = objects.filter(({ id }) => id !== root)
  const { reader } = readerOf(project)
  const proven = (read: ObjectReader['read']) =>
    isProvenConnected({ objects: rest, before, after }, { read })
  assert.equal(await proven(reader.read), true)
  const failing: ObjectReader['read'] = async (id, maxBytes) => {
    if (id === root) throw new ObjectTooLargeError('too large')
    return reader.read(id, maxBytes)
  }
  assert.equal(await proven(failing), false)
  assert.equal(await proven(async () => undefined), false)
})

test('a file from another folder is left to git', async () => {
  await using project = await createProject()
  const before = await createTree(project)
  await project.git('mv', 'src/b.txt', 'doc/b.txt')
  await project.git('commit', '--quiet', '-m', 'Move')
  const after = await project.git('rev-parse', 'HEAD')
  const objects = await objectsOf(project, before, after)
  const { reader } = readerOf(project)
  assert.equal(await isProvenConnected({ objects, before, after }, reader), false)
})

test('the commit of a submodule does not stand for a file', async () => {
  await using project = await createProject()
  const absent = 'a'.repeat(40)
  await project.git('update-index', '--add', '--cacheinfo', `160000,${absent},module`)
  await project.git('commit', '--quiet', '-m', 'Add a submodule')
  const before = await project.git('rev-parse', 'HEAD')
  const { reader } = readerOf(project)
  const proven = (mode: string) => {
    const [after, tree] = ['b'.repeat(40), 'c'.repeat(40)] as const
    const entry = Buffer.concat([Buffer.from(`${mode} name\0`), Buffer.from(absent, 'hex')])
    const head = Buffer.from(`tree ${tree}\nparent ${before}\nauthor`)
    const objects: PackedObject[] = [
      { id: after, type: 'commit', content: head },
      { id: tree, type: 'tree', content: entry },
    ]
    return isProvenConnected({ objects, before, after }, reader)
  }
  assert.equal(await proven('160000'), true)
  assert.equal(await proven('100644'), false)
})

test('an entry of the old tree in an unusual mode does not stand for a file or folder', async () => {
  const [before, after] = ['a'.repeat(40), 'b'.repeat(40)]
  const [oldTree, newTree, id] = ['c'.repeat(40), 'd'.repeat(40), 'e'.repeat(40)]
  const treeOf = (mode: string) =>
    Buffer.concat([Buffer.from(`${mode} name\0`), Buffer.from(id, 'hex')])
  const proven = (oldMode: string, newMode: string) => {
    const old = new Map([
      [before, { id: before, type: 'commit', content: Buffer.from(`tree ${oldTree}\nauthor`) }],
      [oldTree, { id: oldTree, type: 'tree', content: treeOf(oldMode) }],
    ])
    const head = Buffer.from(`tree ${newTree}\nparent ${before}\nauthor`)
    const objects: PackedObject[] = [
      { id: after, type: 'commit', content: head },
      { id: newTree, type: 'tree', content: treeOf(newMode) },
    ]
    return isProvenConnected({ objects, before, after }, { read: async (id) => old.get(id) })
  }
  assert.equal(await proven('100644', '100755'), true)
  assert.equal(await proven('40000', '40000'), true)
  // Git takes these for submodules.
  for (const mode of ['160000', '0160000', '160644', '160001', '20000', '0100644', '040000']) {
    assert.equal(await proven(mode, '100644'), false, mode)
    assert.equal(await proven(mode, '40000'), false, mode)
  }
})

test('a commit whose ids have capital letters is left to git', async () => {
  await using project = await createProject()
  const before = await project.git('rev-parse', 'HEAD')
  const tree = await project.git('rev-parse', 'HEAD^{tree}')
  const { reader } = readerOf(project)
  const proven = (parent: string) => {
    const after = 'b'.repeat(40)
    const content = Buffer.from(`tree ${tree}\nparent ${before}\nparent ${parent}\nauthor Ada`)
    const objects: PackedObject[] = [{ id: after, type: 'commit', content }]
    return isProvenConnected({ objects, before, after }, reader)
  }
  assert.equal(await proven(before), true)
  assert.equal(await proven('A'.repeat(40)), false)
})

test('commits that would have a large old tree parsed again and again are left to git', async () => {
  const idOf = (number: number) => number.toString(16).padStart(40, '0')
  const treeOf = (length: number) =>
    Buffer.concat(
      Array.from({ length }, (_, number) =>
        Buffer.from(`100644 ${idOf(number)}\0${'x'.repeat(20)}`),
      ),
    )
  const proven = (count: number, oldLength: number) => {
    const commitOf = (tree: number, parent: number) =>
      Buffer.from(`tree ${idOf(tree)}\nparent ${idOf(parent)}\nauthor Ada`)
    const base = new Map([
      [idOf(0), { id: idOf(0), type: 'commit', content: commitOf(1, 0) }],
      [idOf(1), { id: idOf(1), type: 'tree', content: treeOf(oldLength) }],
    ])
    const commits = Array.from({ length: count }, (_, index) => index * 2 + 2)
    const objects = commits.flatMap((id): PackedObject[] => [
      { id: idOf(id), type: 'commit', content: commitOf(id + 1, id === 2 ? 0 : id - 2) },
      { id: idOf(id + 1), type: 'tree', content: treeOf(1) },
    ])
    const pushed = { objects, before: idOf(0), after: idOf(count * 2) }
    return isProvenConnected(pushed, { read: async (id) => base.get(id) })
  }
  assert.equal(await proven(50, 100), true)
  assert.equal(await proven(1, 10_000), true)
  assert.equal(await proven(50, 10_000), false)
})

test('a new branch is proven by the one commit that it builds on, which refs must reach', async () => {
  await using project = await createProject()
  const base = await createTree(project)
  await project.commit('src/deep/c.txt', 'changed\n')
  const after = await project.commit('new/e.txt', 'new\n')
  const objects = await objectsOf(project, base, after)
  const { reader } = readerOf(project)
  const update = { before: zeroId, after }
  const isReached = async (id: string) => id === base
  const proof = await proveConnected({ objects, update, reader, isReached })
  assert.equal(proof?.base, base)
  assert.ok(proof.reached.has(await project.git('rev-parse', `${base}:src`)))
  const unreached = { objects, update, reader, isReached: async () => false }
  assert.equal(await proveConnected(unreached), undefined)
  // Another base is one too many.
  const [, parent = ''] = (await project.git('rev-list', base)).split('\n')
  const merge = await project.git(
    'commit-tree',
    '-p',
    after,
    '-p',
    parent,
    '-m',
    'x',
    `${after}^{tree}`,
  )
  const two = await objectsOf(project, base, merge)
  const both = { objects: two, update: { before: zeroId, after: merge }, reader }
  assert.equal(await proveConnected({ ...both, isReached: async () => true }), undefined)
})

test('a first push and a tag are proven; without an object they are not', async () => {
  await using project = await createProject()
  await project.commit('src.txt', 'text\n')
  await project.git('tag', '-a', 'v1', '-m', 'First')
  const tag = await project.git('rev-parse', 'v1')
  const objects = await objectsOf(project, '', tag)
  const { reader, read } = readerOf(project)
  const isReached = async () => false
  const update = { before: zeroId, after: tag }
  const proven = (given: PackedObject[]) =>
    proveConnected({ objects: given, update, reader, isReached })
  const needed = new Set(objects.map(({ id }) => id))
  assert.deepEqual(await proven(objects), { base: undefined, reached: new Set(), needed })
  for (const { id } of objects)
    assert.equal(await proven(objects.filter((object) => object.id !== id)), undefined, id)
  assert.deepEqual(read, [])
})
