// Tags: exhaustive
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { after, before, test } from 'node:test'
import { createZstdCompress, zstdCompressSync } from 'node:zlib'
import { createFolderStorage } from '#cli/runs/folder-storage.ts'
import { type Engine, startEngine } from '../../../test/support/engine.ts'
import { type TarEntry, tarOf } from '../../../test/support/tar.ts'

let engine: Engine
before(async () => {
  engine = await startEngine()
})
after(() => engine[Symbol.asyncDispose]())

const version = createHash('sha256')
  .update(JSON.stringify(['tar.zst 1', 'a']))
  .digest('hex')
let count = 0

/** Runs a step that restores a cache with this content, and one with a script. */
async function restore(content: Readable, { script = 'find a', minutes = 1 } = {}) {
  const key = `hostile-${++count}`
  const caches = join(engine.folder, 'hostile-caches')
  const storage = createFolderStorage({ caches, artifacts: caches, cachesMaxBytes: 1024 ** 3 })
  await storage.saveCache({ key, version, content, signal: new AbortController().signal })
  return engine.run({
    caches,
    workflows: `
steps:
  - uses: actions/cache/restore@v4
    timeout-minutes: ${minutes}
    with: { path: a, key: ${key} }
  - name: script
    if: always()
    run: |
      ${script}
`,
  })
}

function packed(entries: Iterable<TarEntry>): Readable {
  const pieces = joined(tarOf(entries))
  return Readable.from(pieces, { objectMode: false }).pipe(createZstdCompress())
}

/** Joins pieces by the thousand: a stream takes long for a million of them. */
function* joined(pieces: Iterable<Buffer>): Generator<Buffer> {
  let waiting: Buffer[] = []
  for (const piece of pieces) {
    waiting.push(piece)
    if (waiting.length < 1000) continue
    yield Buffer.concat(waiting)
    waiting = []
  }
  yield Buffer.concat(waiting)
}

test('an archive writes nothing that a step could not write', async () => {
  const outside = join(engine.folder, 'outside')
  await mkdir(outside)
  const { log, outputOf } = await restore(
    packed([
      { name: 'workspace/a/', type: '5', mode: 0o755 },
      { name: 'workspace/a/good', content: 'good' },
      { name: `${outside}/absolute`, content: 'x' },
      { name: `../../../../../../..${outside}/above`, content: 'x' },
      { name: 'workspace/a/out', type: '2', link: outside },
      { name: 'workspace/a/out/through', content: 'x' },
      { name: 'workspace/a/hard', type: '1', link: '/etc/passwd' },
      { name: 'usr/bin/sh', content: 'x' },
      { name: 'workspace/a/device', type: '3', mode: 0o666 },
      { name: 'workspace/a/pipe', type: '6' },
      { name: 'workspace/a/setuid', mode: 0o6755, content: '#!/bin/sh\nid -u' },
    ]),
    {
      script:
        'cat a/good; test -b a/device -o -c a/device && echo device; stat -c %A a/setuid || true',
    },
  )
  for (const name of ['absolute', 'above', 'through'])
    assert.equal(existsSync(join(outside, name)), false, name)
  // What tar refuses makes the cache a failed one, which is a warning and no hit.
  assert.match(log, /::warning::The cache could not be restored: /)
  assert.match(outputOf('script'), /^good/)
  assert.doesNotMatch(outputOf('script'), /device/)
})

test('a setuid program of an archive gives no other user', async () => {
  const { outputOf } = await restore(
    packed([{ name: 'workspace/a/id', mode: 0o6755, content: '#!/bin/sh\nid -u' }]),
    { script: 'a/id; id -u' },
  )
  const [one, other] = outputOf('script').split('\n')
  assert.equal(one, other)
})

test('an archive of a million files ends with the time of its step', async () => {
  function* entries(): Generator<TarEntry> {
    for (let index = 0; index < 1_000_000; index++) yield { name: `workspace/a/${index}` }
  }
  const { steps } = await restore(packed(entries()), { minutes: 0.05, script: 'echo on' })
  const [first, second] = steps
  assert.ok(first?.conclusion === 'timed_out' || first?.conclusion === 'success')
  assert.ok(second !== undefined)
})

test('an archive that unpacks to more than a file may have is a miss', async () => {
  const zeros = function* () {
    yield* tarOf([{ name: 'workspace/a/big', size: 2 ** 30 }]).take(1)
    for (let index = 0; index < 1024; index++) yield Buffer.alloc(2 ** 20)
  }
  const content = Readable.from(zeros(), { objectMode: false }).pipe(createZstdCompress())
  const { log } = await restore(content, { script: 'echo on' })
  assert.match(log, /::warning::The cache could not be restored: /)
  assert.match(log, /There is no cache for hostile-/)
  assert.match(log, /^on$/m)
})

test('content that is no archive, or ends early, is a miss', async () => {
  const whole = zstdCompressSync(
    Buffer.concat([...tarOf([{ name: 'workspace/a', content: 'x'.repeat(99_999) }])]),
  )
  for (const bytes of [
    Buffer.from('not compressed'),
    zstdCompressSync(Buffer.from('not an archive'.repeat(1000))),
    whole.subarray(0, whole.length - 20),
    Buffer.alloc(0),
  ]) {
    const { log } = await restore(Readable.from([bytes]), { script: 'echo on' })
    assert.match(log, /::warning::The cache could not be restored: /, `${bytes.length}`)
    assert.match(log, /^on$/m)
  }
})
