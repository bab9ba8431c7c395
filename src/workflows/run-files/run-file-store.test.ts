import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newId } from '#base/ids.ts'
import type { Database } from '#database/database.ts'
import { insertRepository } from '#repositories/repository-store.ts'
import { onEachDatabase } from '../../../test/support/databases.ts'
import { insertRun } from '../run-store.ts'
import {
  deleteArtifactsOf,
  deleteExpiredArtifacts,
  insertArtifact,
  listArtifacts,
  measureArtifacts,
} from './artifact-store.ts'
import {
  deleteCaches,
  deleteUnusedCaches,
  findCacheByKey,
  findCacheByPrefix,
  hasCaches,
  insertCache,
  listCacheSizes,
  listCaches,
  measureCaches,
  updateCacheUse,
} from './run-cache-store.ts'
import {
  abandonFile,
  deleteDeadFile,
  giveUpFilesBefore,
  giveUpFilesOf,
  giveUpUnreferenced,
  insertOpenFile,
  keepFile,
  listDeadFiles,
} from './run-file-store.ts'

const large = 3_000_000_000

async function addRepository(db: Database): Promise<string> {
  const id = newId()
  const owner = { ownerTokenId: 't', ownerUsername: 'ada' }
  const row = { id, name: id, nameKey: id, ...owner, createdAt: 1, state: 'ready' } as const
  assert.ok(await insertRepository(db, row))
  return id
}

async function addFile(db: Database, repositoryId: string, size = 1): Promise<string> {
  const id = newId()
  await insertOpenFile(db, { id, repositoryId, node: 'here', now: 1 })
  assert.equal(await keepFile(db, { id, size, sha256: 'x', now: 2 }), true)
  return id
}

async function addCache(
  db: Database,
  repositoryId: string,
  { key, isProtected = 0, ref = 'refs/heads/main', usedAt = 5, createdAt = 5, size = 1 }: Wanted,
): Promise<boolean> {
  const id = await addFile(db, repositoryId, size)
  const row = { id, repositoryId, ref, isProtected, version: 'v', key, createdAt, usedAt }
  return insertCache(db, row)
}

type Wanted = {
  key: string
  isProtected?: number
  ref?: string
  usedAt?: number
  createdAt?: number
  size?: number
}

const deadIn = async (db: Database) => (await listDeadFiles(db, 1e12, 100)).map(({ id }) => id)

onEachDatabase((fresh) => {
  test('a content is kept once, and its row goes only when it is dead', async () => {
    await using database = await fresh()
    const db = await database.open()
    const [open, late, lost] = [newId(), newId(), newId()]
    for (const [id, node, now] of [
      [open, 'here', 5],
      [late, 'there', 1],
      [lost, 'here', 9],
    ] as const)
      await insertOpenFile(db, { id, repositoryId: 'r', node, now })
    assert.equal(await keepFile(db, { id: open, size: large, sha256: 'x', now: 9 }), true)
    assert.equal(await keepFile(db, { id: open, size: 1, sha256: 'x', now: 9 }), false)
    await giveUpFilesBefore(db, 5, 10)
    assert.deepEqual(await deadIn(db), [late])
    await abandonFile(db, open, 11)
    await giveUpFilesOf(db, 'here', 11)
    assert.deepEqual(await deadIn(db), [late, lost])
    assert.equal(await keepFile(db, { id: lost, size: 1, sha256: 'x', now: 12 }), false)
    assert.deepEqual(await listDeadFiles(db, 10, 100), [{ id: late, repositoryId: 'r' }])
    await deleteDeadFile(db, open)
    await deleteDeadFile(db, late)
    // Nothing refers to it.
    await giveUpUnreferenced(db, 13)
    assert.deepEqual(await deadIn(db), [lost, open])
  })

  test('caches are found by key and prefix, within their scope', async () => {
    await using database = await fresh()
    const db = await database.open()
    const repositoryId = await addRepository(db)
    for (const [index, key] of ['a-1', 'a-2', 'a_x', 'ä-1', 'A-1', 'b%'].entries())
      assert.ok(await addCache(db, repositoryId, { key, createdAt: index }))
    assert.ok(await addCache(db, repositoryId, { key: 'a-1', isProtected: 1, createdAt: 0 }))
    assert.equal(await addCache(db, repositoryId, { key: 'a-1' }), false)
    assert.ok(await addCache(db, repositoryId, { key: 'a-9', ref: 'refs/heads/x', createdAt: 99 }))
    const query = {
      repositoryId,
      ref: 'refs/heads/main',
      version: 'v',
      isProtectedOnly: false,
    }
    const prefixed = async (prefix: string, more = {}) =>
      (await findCacheByPrefix(db, { ...query, ...more }, prefix))?.key
    assert.equal(await prefixed('a-'), 'a-2')
    assert.equal(await prefixed('a'), 'a_x')
    assert.equal(await prefixed('a__'), undefined)
    assert.equal(await prefixed('%'), undefined)
    assert.equal(await prefixed('b%'), 'b%')
    assert.equal(await prefixed('ä'), 'ä-1')
    assert.equal(await prefixed('a', { isProtectedOnly: true }), 'a-1')
    assert.equal(await prefixed('a', { version: 'w' }), undefined)
    assert.equal(await prefixed('a', { repositoryId: 'other' }), undefined)
    assert.equal(await prefixed('a', { ref: 'refs/heads/x' }), 'a-9')
    assert.equal((await findCacheByKey(db, query, 'a-1'))?.size, 1)
    assert.equal(await findCacheByKey(db, query, 'a-'), undefined)
    assert.equal(await hasCaches(db, repositoryId, 'refs/heads/x'), true)
    assert.equal((await deleteCaches(db, repositoryId, { ref: 'refs/heads/x' })).length, 1)
    assert.equal(await hasCaches(db, repositoryId, 'refs/heads/x'), false)
    assert.equal((await deleteCaches(db, repositoryId, { key: 'a-1' })).length, 2)
    assert.equal((await deleteCaches(db, 'other', {})).length, 0)
    assert.equal((await listCaches(db, repositoryId, { after: '', limit: 2 })).length, 2)
  })

  test('caches are listed by their last use, and removed when they are not used', async () => {
    await using database = await fresh()
    const db = await database.open()
    const [one, two] = [await addRepository(db), await addRepository(db)]
    await addCache(db, one, { key: 'old', usedAt: 1, size: large })
    await addCache(db, two, { key: 'new', usedAt: 3 })
    await addCache(db, one, { key: 'middle', usedAt: 2 })
    const [first, second, third] = await listCacheSizes(db, undefined, 10)
    assert.equal(first?.size, large)
    assert.deepEqual(await listCacheSizes(db, undefined, 1), [first])
    assert.deepEqual(await measureCaches(db, one), { count: 2, sizeBytes: large + 1 })
    assert.deepEqual(await measureCaches(db, undefined), { count: 3, sizeBytes: large + 2 })
    assert.deepEqual(await measureCaches(db, 'other'), { count: 0, sizeBytes: 0 })
    assert.deepEqual(await listCacheSizes(db, one, 10), [first, second])
    await updateCacheUse(db, first?.id ?? '', 9)
    assert.deepEqual(await listCacheSizes(db, undefined, 10), [second, third, first])
    await deleteUnusedCaches(db, 3)
    assert.deepEqual(await listCacheSizes(db, undefined, 10), [third, first])
    await giveUpUnreferenced(db, 10)
    assert.deepEqual(await deadIn(db), [second?.id])
  })

  test('artifacts are unique in an attempt, and go with their time, run and repository', async () => {
    await using database = await fresh()
    const db = await database.open()
    const repositoryId = await addRepository(db)
    const runs = [await addRun(db, repositoryId, 1), await addRun(db, repositoryId, 2)]
    const add = async (runId: string, attempt: number, name: string, expiresAt = 100) => {
      const id = await addFile(db, repositoryId, large)
      const isNew = await insertArtifact(db, {
        ...{ id, repositoryId, runId, attempt, name },
        ...{ createdAt: 1, expiresAt },
      })
      return isNew ? id : undefined
    }
    const [first = '', second = ''] = runs
    const kept = await add(first, 1, 'a')
    assert.equal(await add(first, 1, 'a'), undefined)
    await add(first, 2, 'a', 50)
    await add(second, 1, 'a')
    assert.equal((await listArtifacts(db, first)).length, 2)
    assert.equal((await measureArtifacts(db, repositoryId)).sizeBytes, 3 * large)
    assert.equal((await measureArtifacts(db, 'other')).sizeBytes, 0)
    await deleteExpiredArtifacts(db, 50)
    assert.deepEqual(
      (await listArtifacts(db, first)).map(({ id }) => id),
      [kept],
    )
    await deleteArtifactsOf(db, { runId: first, attempt: 1 })
    assert.deepEqual(await listArtifacts(db, first), [])
    await db.deleteFrom('runs').where('id', '=', second).execute()
    assert.equal((await measureArtifacts(db, repositoryId)).sizeBytes, 0)
    await giveUpUnreferenced(db, 10)
    assert.equal((await deadIn(db)).length, 4)
    await add(first, 1, 'a')
    await db.deleteFrom('repositories').where('id', '=', repositoryId).execute()
    assert.deepEqual(await listArtifacts(db, first), [])
  })
})

async function addRun(db: Database, repositoryId: string, number: number): Promise<string> {
  const id = newId()
  await insertRun(
    db,
    {
      ...{ id, repositoryId, number, name: 'ci', branch: 'main', ref: 'refs/heads/main' },
      ...{ commitId: 'c', event: 'push', payload: '{}', inputs: '{}', files: '[]' },
      ...{ sources: '{}', labels: '[]', secretNames: null, actorId: 'a', actorUsername: 'ada' },
      ...{ status: 'completed', conclusion: 'success', createdAt: 1, queuedAt: 1 },
      ...{ startedAt: 1, completedAt: 2, cancelReason: null, cancelledAt: null, tokenHash: null },
    },
    [],
  )
  return id
}
