import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newId } from '#base/ids.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import { onEachDatabase } from '../../test/support/databases.ts'
import { toPushRow } from '../../test/support/push-rows.ts'
import { deleteLfsObjects, insertLfsObject } from './lfs-object-store.ts'
import { measureNamespace, saveNamespaceLimits } from './namespace-limit-store.ts'
import {
  enforceByteLimit,
  enforceLimits,
  enforceRepositoryLimit,
  findBytesLeft,
} from './namespace-limits.ts'
import { createNamespaceUsage } from './namespaces/namespace-usage.ts'
import type { Namespace } from './namespaces/namespaces.ts'
import { replacePackBytes } from './repository-size-store.ts'
import { insertRepository, recordPushed } from './repository-store.ts'

const namespaceId = newId()

async function insertRepositoryOf(db: Database, name: string, namespace: string | null) {
  const id = newId()
  const owner = { ownerUsername: 'ada', ownerTokenId: 't', createdAt: 1 }
  const row = { id, name, nameKey: name, namespaceId: namespace, packBytes: 0, ...owner }
  await db.transaction().execute(async (tx) => {
    await insertRepository(tx, { ...row, state: 'ready' })
    await enforceRepositoryLimit(tx, id)
  })
  return id
}

async function addNamespace(db: Database, limits: { repositories: number; bytes: number }) {
  const names = { name: 'acme', nameKey: 'acme', createdAt: 1 }
  await db
    .insertInto('namespaces')
    .values({ id: namespaceId, ...names })
    .execute()
  const { repositories: maxRepositories, bytes: maxBytes } = limits
  await saveNamespaceLimits(db, { namespaceId, maxRepositories, maxBytes })
}

function addLfsObject(db: Database, repositoryId: string, oid: string, size: number) {
  const times = { createdAt: 1, renewedAt: 1, checkedAt: 1 }
  return db.transaction().execute(async (tx) => {
    await insertLfsObject(tx, { repositoryId, oid, size, bucketKey: null, ...times })
    await enforceByteLimit(tx, repositoryId, size)
  })
}

/** The codes of the Problems of those that failed. */
async function failuresOf(attempts: Promise<unknown>[]): Promise<string[]> {
  const outcomes = await Promise.allSettled(attempts)
  return outcomes.flatMap((one) => {
    if (one.status === 'fulfilled') return []
    assert.ok(one.reason instanceof Problem, one.reason)
    return [one.reason.code]
  })
}

onEachDatabase((fresh) => {
  test('of concurrent additions on two servers, no more succeed than the limits allow', async () => {
    await using database = await fresh()
    const [one, other] = await Promise.all([database.open(), database.open()])
    await addNamespace(one, { repositories: 3, bytes: 100 })
    const either = (index: number) => (index % 2 === 0 ? one : other)
    const created = Array.from({ length: 8 }, (_, index) =>
      insertRepositoryOf(either(index), `acme/${index}`, namespaceId),
    )
    assert.deepEqual(await failuresOf(created), Array(5).fill('too_many_repositories'))
    const [id = ''] = (
      await one.selectFrom('repositories').select('id').orderBy('id').execute()
    ).map((row) => row.id)

    const added = Array.from({ length: 8 }, (_, index) =>
      addLfsObject(either(index), id, `oid-${index}`, 30),
    )
    assert.deepEqual(await failuresOf(added), Array(5).fill('namespace_full'))
    assert.deepEqual(await measureNamespace(one, namespaceId), { repositories: 3, bytes: 90 })
    const left = await findBytesLeft(other, id)
    assert.equal(left?.bytes, 10)
    assert.match(left?.problem.message ?? '', /"acme" .*: 90 bytes of 100 bytes are used\.$/)

    const [first = ''] = (await one.selectFrom('lfsObjects').select('oid').execute()).map(
      (row) => row.oid,
    )
    await one.transaction().execute((tx) => deleteLfsObjects(tx, id, [first], 2))
    assert.equal((await findBytesLeft(other, id))?.bytes, 40)
    // What comes from elsewhere is counted whole.
    const large = await insertRepositoryOf(one, 'large', null)
    await addLfsObject(one, large, 'oid', 1000)
    const moved = one.transaction().execute(async (tx) => {
      await tx.updateTable('repositories').set({ namespaceId }).where('id', '=', large).execute()
      await tx.deleteFrom('repositories').where('name', '=', 'acme/7').execute()
      await tx.updateTable('namespaceLimits').set({ maxRepositories: 9 }).execute()
      await enforceLimits(tx, large)
    })
    assert.deepEqual(await failuresOf([moved]), ['namespace_full'])
  })

  test('an unfinished push counts until it is finalized, and its repository is not measured meanwhile', async () => {
    await using database = await fresh()
    const db = await database.open()
    await addNamespace(db, { repositories: 3, bytes: 100 })
    const id = await insertRepositoryOf(db, 'acme/site', namespaceId)
    const pushId = newId()
    const push = { id: pushId, repositoryId: id, updates: '[]', judgedAt: 1, bytes: 40 }
    await db.insertInto('pushes').values(toPushRow(push)).execute()
    const bytes = async () => (await measureNamespace(db, namespaceId)).bytes
    assert.equal(await bytes(), 40)
    await saveNamespaceLimits(db, { namespaceId, maxRepositories: 3, maxBytes: 39 })
    const moved = db.transaction().execute((tx) => enforceLimits(tx, id))
    assert.deepEqual(await failuresOf([moved]), ['namespace_full'])
    await replacePackBytes(db, id, { former: 0, packBytes: 40 })
    assert.equal(await bytes(), 40)
    await db.transaction().execute(async (tx) => {
      await tx.updateTable('pushes').set({ finishedAt: 2 }).where('id', '=', pushId).execute()
      await recordPushed(tx, id, { pushedAt: 2, bytes: 40 })
    })
    assert.equal(await bytes(), 40)
    // A push was finalized since the measurement began.
    await replacePackBytes(db, id, { former: 0, packBytes: 7 })
    assert.equal(await bytes(), 40)
    await replacePackBytes(db, id, { former: 40, packBytes: 30 })
    assert.equal(await bytes(), 30)
    await db.updateTable('repositories').set({ deletedAt: 3 }).where('id', '=', id).execute()
    assert.deepEqual(await measureNamespace(db, namespaceId), { repositories: 0, bytes: 30 })
  })

  test('the counts of two servers add up by day, and old days are deleted', async () => {
    await using database = await fresh()
    const databases = await Promise.all([database.open(), database.open()])
    const [db] = databases
    await addNamespace(db, { repositories: 3, bytes: 100 })
    const id = await insertRepositoryOf(db, 'acme/site', namespaceId)
    const plain = await insertRepositoryOf(db, 'plain', null)
    let now = Date.parse('2026-11-30T23:59:59Z')
    const clock = { now: () => now }
    const usages = databases.map((one) => createNamespaceUsage({ db: one, clock }))
    const namespace: Namespace = {
      ...{ id: namespaceId, name: 'acme', createdAt: 1, role: 'read' },
      ...{ maxRepositories: 3, maxBytes: 100 },
    }
    const read = async () => {
      const all = await Promise.all(usages.map((usage) => usage.read(namespace, {})))
      assert.deepEqual(await usages[0]?.read(namespace, {}), await usages[1]?.read(namespace, {}))
      assert.equal(all[0]?.repositories, 1)
      return (await usages[0]?.read(namespace, {}))?.days
    }
    for (const usage of usages) {
      usage.add(id, { fetches: 1, sentBytes: 10 })
      usage.add(plain, { fetches: 1 })
    }
    const ref = { ref: 'refs/heads/main', before: '0', after: '1', forced: false }
    const data = { ...ref, pushId: 'p', via: 'http', repositoryName: 'acme/site' }
    const event = {
      kind: 'push',
      actor: { id: 't', username: 'ada' },
      repositoryId: id,
      data,
    } as const
    // The first transaction failed, and was repeated.
    for (const seq of [1, 2]) await usages[0]?.countEvents(db, now, [{ ...event, seq }])
    now += 1000
    usages[0]?.add(id, { fetches: 2, receivedBytes: 5, runMs: 60_001 })
    const none = { pushes: 0, fetches: 2, receivedBytes: 0, sentBytes: 20, runMs: 0 }
    const days = [
      { day: '2026-12-01', ...none, receivedBytes: 5, sentBytes: 0, runMs: 60_001 },
      { day: '2026-11-30', ...none, pushes: 1 },
    ]
    assert.deepEqual(await read(), days)
    assert.deepEqual(usages[0]?.total('fetches'), { acme: 3 })
    now += 400 * 24 * 60 * 60 * 1000
    await usages[1]?.prune()
    const since = { since: 0 }
    assert.deepEqual((await usages[0]?.read(namespace, since))?.days, days.slice(0, 1))
    await db.deleteFrom('repositories').execute()
    await db.deleteFrom('namespaces').execute()
    assert.deepEqual(await db.selectFrom('namespaceDays').selectAll().execute(), [])
  })
})
