import assert from 'node:assert/strict'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { createLog } from '#base/log.ts'
import { Problem } from '#base/problem.ts'
import { openDatabase } from '#database/database.ts'
import { S3Error } from '#repositories/s3/s3-error.ts'
import { temporaryFolder } from '../../../test/support/git.ts'
import { createFileLifeCycle } from './file-life-cycle.ts'
import { createFileStorage } from './file-storage.ts'
import { abandonFile, insertOpenFile } from './run-file-store.ts'

const run = {
  ...{ id: 'run', number: 1, repositoryId: 'r', attempt: 1, ref: 'refs/heads/main', commitId: 'c' },
  ...{ createdAt: 1, kept: '[]', isRestricted: 0, actorUsername: 'ada', tokenHash: 'h' },
}

const isProblem = (code: string) => (error: unknown) =>
  error instanceof Problem && error.code === code

test('a file that was not stored in the bucket leaves no file on this server', async () => {
  await using fixture = await createFixture()
  await assert.rejects(fixture.receive('much', 3), isProblem('body_too_large'))
  assert.deepEqual(await fixture.drafts(), [])
  await assert.rejects(fixture.receive('much', 4), isProblem('storage_unavailable'))
  assert.deepEqual(await fixture.drafts(), [])
})

test('a request does not fail because of files of others that cannot be removed', async () => {
  await using fixture = await createFixture()
  const { db, files } = fixture
  await insertOpenFile(db, { id: 'other', repositoryId: 'r', node: 'there', now: 1 })
  await abandonFile(db, 'other', 1)
  await assert.rejects(fixture.receive('much', 3), isProblem('body_too_large'))
  await files.collect()
  await assert.rejects(files.sweep(), isProblem('storage_unavailable'))
})

test('copies of files in the bucket need space on this server, all that are made at once together', async () => {
  await using folder = await temporaryFolder()
  const required: number[] = []
  const isCopied = Promise.withResolvers<{ sha256: string }>()
  const storage = createFileStorage({
    dataDir: folder.path,
    bucket: {
      put: () => assert.fail('nothing is stored'),
      delete: () => assert.fail('nothing is deleted'),
      getToFile: () => isCopied.promise,
    },
    freeSpace: {
      async require(bytes = 0) {
        required.push(bytes)
        if (bytes > 30) throw new Problem('storage_full', 'Full.')
      },
    },
  })
  const { signal } = new AbortController()
  const open = (size: number) =>
    storage.open({ id: 'i', repositoryId: 'r', sha256: '', size }, signal)
  const first = open(20)
  await assert.rejects(open(20), isProblem('storage_full'))
  isCopied.reject(new S3Error('absent', 'gone'))
  assert.equal(await first, undefined)
  assert.equal(await open(30), undefined)
  assert.deepEqual(required, [20, 40, 30])
})

/** Files in a bucket that does not work. */
async function createFixture() {
  await using starting = new AsyncDisposableStack()
  const { path: dataDir } = starting.use(await temporaryFolder())
  const log = createLog({ level: 'silent', output: process.stderr })
  const db = await openDatabase({ dataDir, url: undefined, log })
  starting.defer(() => db.destroy())
  const fail = () => Promise.reject(new S3Error('unavailable', 'no response'))
  const freeSpace = { require: async () => {} }
  const files = createFileLifeCycle({
    db,
    storage: createFileStorage({
      dataDir,
      bucket: { put: fail, getToFile: fail, delete: fail },
      freeSpace,
    }),
    node: 'here',
    isHeld: async () => true,
    freeSpace,
    clock: { now: () => Date.now() },
    faultPoint: () => {},
  })
  await files.prepare()
  const resources = starting.move()
  return {
    db,
    files,
    drafts: () => readdir(join(dataDir, 'run-files', 'incoming')),
    receive(text: string, maxBytes: number) {
      const open = () => Readable.from([Buffer.from(text)], { objectMode: false })
      const body = { declaredBytes: undefined, open }
      const { signal } = new AbortController()
      return files.receive({ run, body, maxBytes, signal }, async () => {})
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  }
}
