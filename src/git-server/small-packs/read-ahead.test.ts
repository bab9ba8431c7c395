import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { test } from 'node:test'
import { packHeader } from '#git/objects/pack.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { createProject, type Project, spawnGit } from '../../../test/support/git.ts'
import { basisOf, readAhead } from './read-ahead.ts'

const commands = Buffer.from('commands')
const pack = Buffer.concat([packHeader(0), Buffer.alloc(20)])
const update = { ref: 'refs/heads/main', before: zeroId, after: 'a'.repeat(40) }

async function read(chunks: Buffer[], sendsAllFirst: boolean) {
  const taken: number[] = []
  async function* body() {
    for (const [index, chunk] of chunks.entries()) {
      taken.push(index)
      yield chunk
    }
    taken.push(chunks.length)
  }
  const given = { updates: [update], commandBytes: commands.length, whole: body() }
  const ahead = await readAhead(given, { sendsAllFirst })
  return { ahead, taken: [...taken] }
}

test('a pack is read to the end of the request, where nothing may follow it', async () => {
  const first = Buffer.concat([commands, pack.subarray(0, 9)])
  const rest = pack.subarray(9)
  const overHttp = await read([first, rest], true)
  assert.equal(overHttp.ahead.read?.buildsOn, 'no')
  assert.deepEqual(overHttp.ahead.read?.pack, pack)
  assert.deepEqual(overHttp.taken, [0, 1, 2])
  // Over SSH the client waits for the report.
  const overSsh = await read([first, rest, Buffer.from('more')], false)
  assert.equal(overSsh.ahead.read?.buildsOn, 'no')
  assert.deepEqual(overSsh.taken, [0, 1])
})

test('a request with more than a pack is left to git, whole', async () => {
  const chunks = [commands, pack, Buffer.from('more'), Buffer.from('and more')]
  const { ahead } = await read(chunks, true)
  assert.equal(ahead.read?.buildsOn, 'unknown')
  assert.equal(ahead.isFastForward, false)
  const whole: Buffer[] = []
  for await (const chunk of ahead.whole) whole.push(chunk)
  assert.deepEqual(Buffer.concat(whole), Buffer.concat(chunks))
})

test('the base of a small pack is found from the pack alone', async () => {
  await using project = await createProject()
  const first = await project.commit('first.txt')
  await project.git('switch', '--quiet', '-c', 'side')
  const side = await project.commit('side.txt')
  await project.git('switch', '--quiet', 'main')
  const second = await project.commit('second.txt', 'first.txt and more')
  const third = await project.commit('third.txt')
  const straight = await packOf(project, third, [first])
  assert.equal(basisOf(straight, { before: first, after: third }), 'yes')
  assert.equal(basisOf(straight, { before: side, after: third }), 'no')
  assert.equal(basisOf(straight, { before: third, after: side }), 'no')

  await project.git('merge', '--quiet', '--no-edit', 'side')
  const merge = await project.git('rev-parse', 'HEAD')
  const merged = await packOf(project, merge, [third, side])
  assert.equal(basisOf(merged, { before: third, after: merge }), 'no')
  const withSide = await packOf(project, merge, [first])
  assert.equal(basisOf(withSide, { before: first, after: merge }), 'yes')
  assert.equal(basisOf(withSide, { before: second, after: merge }), 'no')

  await project.git('checkout', '--quiet', '--orphan', 'apart')
  const root = await project.commit('root.txt')
  const apart = await packOf(project, root, [])
  assert.equal(basisOf(apart, { before: first, after: root }), 'apart')
})

test('a line that only resembles a parent is ignored', async () => {
  await using project = await createProject()
  const before = await project.git('rev-parse', 'HEAD')
  const tree = await project.git('rev-parse', 'HEAD^{tree}')
  const who = 'Ada <ada@example.com> 0 +0000'
  const text = `tree ${tree}\nauthor ${who}\ncommitter ${who}\nparent ${before}\n\nOdd\n`
  const path = join(project.path, 'odd')
  await writeFile(path, text)
  const after = await project.git('hash-object', '--literally', '-t', 'commit', '-w', path)
  const pack = await packOf(project, after, [before])
  assert.equal(basisOf(pack, { before, after }), 'apart')
})

test('deltified commits are read, too', async () => {
  await using project = await createProject()
  const before = await project.git('rev-parse', 'HEAD')
  for (let number = 0; number < 30; number++) {
    const more = 'the same words again, and again\n'.repeat(number)
    await project.git('commit', '--quiet', '--allow-empty', '-m', `Commit ${number}\n\n${more}`)
  }
  const after = await project.git('rev-parse', 'HEAD')
  const pack = await packOf(project, after, [before])
  assert.equal(basisOf(pack, { before, after }), 'yes')
  assert.equal(basisOf(pack, { before: after.replace(/./g, '0'), after }), 'no')
})

test('a truncated pack is incomplete, wherever it is cut', async () => {
  await using project = await createProject()
  const before = await project.git('rev-parse', 'HEAD')
  const after = await project.commit('text.txt', 'much of the same\n'.repeat(200))
  const pack = await packOf(project, after, [before])
  for (let length = 0; length < pack.length; length++) {
    assert.equal(basisOf(pack.subarray(0, length), { before, after }), undefined)
  }
  assert.equal(basisOf(pack, { before, after }), 'yes')
})

test('invalid packs, and objects that exceed their size, are unknown', async () => {
  await using project = await createProject()
  const before = await project.git('rev-parse', 'HEAD')
  const after = await project.commit('zeros.bin', '\0'.repeat(4 * 1024 * 1024))
  const pack = await packOf(project, after, [before])
  assert.ok(pack.length < 64 * 1024)
  assert.equal(basisOf(pack, { before, after }), 'unknown')
  assert.equal(basisOf(Buffer.from('no pack, but as long'), { before, after }), 'unknown')
  pack.fill(0xff, 14)
  assert.equal(basisOf(pack, { before, after }), 'unknown')
})

/** What a push of a commit sends to who has others. */
async function packOf(project: Project, commit: string, known: string[]): Promise<Buffer> {
  const child = spawnGit(project.path, [
    ...['pack-objects', '--revs', '--thin', '--stdout', '--quiet', '--delta-base-offset'],
  ])
  child.stdin.end([commit, ...known.map((id) => `^${id}`), ''].join('\n'))
  const [pack] = await Promise.all([buffer(child.stdout), once(child, 'close')])
  return pack
}
