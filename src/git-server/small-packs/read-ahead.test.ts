import assert from 'node:assert/strict'
import { test } from 'node:test'
import { packHeader } from '#git/objects/pack.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { readAhead } from './read-ahead.ts'

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
