import assert from 'node:assert/strict'
import { test } from 'node:test'
import { dayMs } from '#base/clock.ts'
import { newId } from '#base/ids.ts'
import type { Database } from '#database/database.ts'
import { deleteRepository, insertRepository } from '#repositories/repository-store.ts'
import { onEachDatabase } from '../../../test/support/databases.ts'
import { publish } from '../../../test/support/publish.ts'
import { countPushes } from './count-pushes.ts'
import {
  addPushes,
  claimNext,
  countDue,
  type DueRules,
  extendClaim,
  findMaintenance,
  hasRequests,
  type Maintained,
  recordFailure,
  recordSuccess,
  releaseLease,
  requestAtLeastQuick,
  requestMaintenance,
} from './maintenance-store.ts'

const start = 1_795_184_328_814
const rulesAt = (now: number): DueRules => {
  return { now, pushes: 50, waitMs: dayMs, pruneIntervalMs: 7 * dayMs }
}
const holdUntil = (until: number, leaseOwner = 'here') => ({ leaseOwner, until })
const unlimited = 1e9
const counting = { dueAfter: 50, isAutomatic: true, directoryOf: async () => '/nonexistent' }

onEachDatabase((fresh) => {
  test('pushes and imports are counted from the event log, each once', async () => {
    await using database = await fresh()
    const [db, other] = [await database.open(), await database.open()]
    const [site, imported, gone] = [await add(db), await add(db), await add(db)]
    for (let number = 0; number < 3; number++) await pushed(db, site, `push-${number}`)
    await pushed(db, gone, 'push-x')
    await deleteRepository(db, gone)
    await happened(db, 'repository.imported', imported)
    await happened(db, 'repository.renamed', site)
    const clock = { now: () => start }
    const counted = await Promise.all(
      [db, other].map((one) => countPushes({ ...counting, db: one, clock })),
    )
    assert.ok(counted.includes(true))
    assert.equal(await countPushes({ ...counting, db, clock }), false)
    const [ofSite, ofImported] = [await find(db, site), await find(db, imported)]
    assert.deepEqual([ofSite.pushes, ofSite.pushedAt, ofImported.pushes], [3, start, 50])
    assert.equal(await findMaintenance(db, gone), undefined)
    await pushed(db, site, 'push-4')
    await countPushes({ ...counting, db, clock: { now: () => start + 9 } })
    const later = await find(db, site)
    assert.deepEqual([later.pushes, later.pushedAt], [4, start])
  })

  test('a push counts once per four refs, since each is a file until refs are packed', async () => {
    await using database = await fresh()
    const db = await database.open()
    const site = await add(db)
    for (let number = 0; number < 5; number++) await pushed(db, site, 'push-of-many')
    for (let number = 0; number < 2; number++) await pushed(db, site, 'push-of-four')
    await countPushes({ ...counting, db, clock: { now: () => start } })
    assert.equal((await find(db, site)).pushes, 3 + 1)
  })

  test('a repository is due after many pushes, a day after one, and on request', async () => {
    await using database = await fresh()
    const db = await database.open()
    const [busy, calm, wanted] = [await add(db), await add(db), await add(db)]
    await addPushes(db, { repositoryId: busy, pushes: 49, now: start })
    await addPushes(db, { repositoryId: calm, pushes: 1, now: start })
    assert.equal(await countDue(db, rulesAt(start)), 0)
    await addPushes(db, { repositoryId: busy, pushes: 1, now: start })
    assert.equal(await countDue(db, rulesAt(start)), 1)
    assert.equal(await countDue(db, rulesAt(start + dayMs + 1)), 2)
    assert.equal(await hasRequests(db), false)
    await requestMaintenance(db, { repositoryId: wanted, wanted: 'full', now: start })
    assert.equal(await hasRequests(db), true)
    const onlyAsked = { ...rulesAt(start + dayMs + 1), pushes: undefined }
    assert.equal(await countDue(db, onlyAsked), 1)
    const order = []
    for (;;) {
      const row = await claimNext(db, holdUntil(start + unlimited), rulesAt(start + dayMs + 1))
      if (!row) break
      order.push(row.repositoryId)
      await recordSuccess(db, row, { now: start, report: '{}', pruned: undefined })
    }
    assert.deepEqual(order, [wanted, busy, calm])
  })

  test('one of two servers gets a due repository, and an expired lease is taken over', async () => {
    await using database = await fresh()
    const servers = await Promise.all(Array.from({ length: 4 }, () => database.open()))
    const [db = await database.open()] = servers
    const ids = await Promise.all([add(db), add(db)])
    for (const repositoryId of ids) await addPushes(db, { repositoryId, pushes: 50, now: start })
    const claims = await Promise.all(
      servers.map((server, number) =>
        claimNext(server, holdUntil(start + 60, `server-${number}`), rulesAt(start)),
      ),
    )
    const taken = claims.flatMap((row) => (row ? [row.repositoryId] : []))
    assert.deepEqual(taken, [...new Set(taken)])
    while (await claimNext(db, holdUntil(start + 60, 'rest'), rulesAt(start))) {
      if ((await held(db, 'rest')).length >= ids.length - taken.length) break
    }
    assert.equal(await claimNext(db, holdUntil(start + 60, 'late'), rulesAt(start + 60)), undefined)
    const row = await claimNext(db, holdUntil(start + 120, 'late'), rulesAt(start + 61))
    assert.ok(row)
    const { repositoryId } = row
    assert.equal(await extendClaim(db, repositoryId, holdUntil(start + 200, 'gone')), false)
    assert.equal(await extendClaim(db, repositoryId, holdUntil(start + 200, 'late')), true)
    const again = await claimNext(db, holdUntil(start + 200, 'late'), rulesAt(start + 62))
    assert.ok(again, 'what a server holds from before is its own')
    await releaseLease(db, repositoryId, 'late')
    assert.equal((await find(db, repositoryId)).leaseHolder, null)
  })

  test('a request during maintenance stays pending', async () => {
    await using database = await fresh()
    const db = await database.open()
    const id = await add(db)
    await addPushes(db, { repositoryId: id, pushes: 50, now: start })
    const row = await claim(db, start)
    await addPushes(db, { repositoryId: id, pushes: 2, now: start + 5 })
    await requestMaintenance(db, { repositoryId: id, wanted: 'full', now: start + 5 })
    const done = { now: start + 9, report: '{}', pruned: { hasCruft: false } }
    assert.equal(await recordSuccess(db, row, done), true)
    const after = await find(db, id)
    assert.deepEqual(
      [after.pushes, after.wanted, after.isUnpruned, after.finishedAt],
      [2, 'full', 1, start + 9],
    )
    const next = await claim(db, start + 10)
    assert.equal(next.wanted, 'full')
    await recordSuccess(db, next, { ...done, now: start + 20 })
    const last = await find(db, id)
    assert.deepEqual(
      [last.pushes, last.pushedAt, last.wanted, last.isUnpruned, last.prunedAt],
      [0, null, '', 0, start + 20],
    )
    assert.equal(await countDue(db, rulesAt(start + 100 * dayMs)), 0)
  })

  test('pruning is due a week after the last one, with or without pushes', async () => {
    await using database = await fresh()
    const db = await database.open()
    const id = await add(db)
    await addPushes(db, { repositoryId: id, pushes: 50, now: start })
    const done = { now: start, report: '{}', pruned: { hasCruft: true } }
    await recordSuccess(db, await claim(db, start), done)
    assert.equal(await countDue(db, rulesAt(start + 7 * dayMs)), 0)
    assert.equal(await countDue(db, rulesAt(start + 7 * dayMs + 1)), 1)
  })

  test('a large push does not request maintenance again before the retry of a failed one', async () => {
    await using database = await fresh()
    const db = await database.open()
    const id = await add(db)
    await addPushes(db, { repositoryId: id, pushes: 1, now: start })
    await requestAtLeastQuick(db, { repositoryId: id, now: start })
    const failure = { fault: 'no space', notBefore: start + 100 }
    await recordFailure(db, await claim(db, start), failure)
    await requestAtLeastQuick(db, { repositoryId: id, now: start + 99 })
    assert.equal(await hasRequests(db), false)
    await requestAtLeastQuick(db, { repositoryId: id, now: start + 100 })
    assert.equal(await hasRequests(db), true)
  })

  test('a failed maintenance waits for its retry, unless requested', async () => {
    await using database = await fresh()
    const db = await database.open()
    const id = await add(db)
    await addPushes(db, { repositoryId: id, pushes: 50, now: start })
    const failure = { fault: 'no space', notBefore: start + 100 }
    assert.equal(await recordFailure(db, await claim(db, start), failure), true)
    const failed = await find(db, id)
    assert.deepEqual([failed.failures, failed.fault, failed.pushes], [1, 'no space', 50])
    assert.equal(await countDue(db, rulesAt(start + 99)), 0)
    assert.equal(await countDue(db, rulesAt(start + 100)), 1)
    await requestMaintenance(db, { repositoryId: id, wanted: 'quick', now: start })
    const row = await claim(db, start + 1)
    await deleteRepository(db, id)
    assert.equal(await recordFailure(db, row, failure), false)
    const done = { now: start, report: '{}', pruned: undefined }
    assert.equal(await recordSuccess(db, row, done), false)
  })
})

async function claim(db: Database, now: number): Promise<Maintained> {
  const row = await claimNext(db, holdUntil(now + 60_000), rulesAt(now))
  assert.ok(row)
  return row
}

async function find(db: Database, id: string): Promise<Maintained> {
  const row = await findMaintenance(db, id)
  assert.ok(row)
  return row
}

function held(db: Database, leaseOwner: string) {
  return db.selectFrom('maintenance').selectAll().where('leaseHolder', '=', leaseOwner).execute()
}

async function add(db: Database): Promise<string> {
  const id = newId()
  const owner = { ownerTokenId: 'token', ownerUsername: 'ada' }
  await insertRepository(db, {
    id,
    name: id,
    nameKey: id,
    ...owner,
    createdAt: start,
    state: 'ready',
  })
  return id
}

/** Publishes what a push of two refs did. */
function pushed(db: Database, repositoryId: string, pushId: string): Promise<void> {
  const actor = { id: 'token', username: 'ada' }
  const [before, after] = ['0'.repeat(40), '1'.repeat(40)]
  const events = ['refs/heads/a', 'refs/heads/b'].map((ref) => {
    const change = { ref, before, after, forced: false }
    const data = { ...change, pushId, via: 'http', repositoryName: 'site' }
    return { kind: 'push', actor, repositoryId, data } as const
  })
  return db.transaction().execute((tx) => publish(tx, start, events))
}

/** Appends an event of any kind. */
async function happened(db: Database, kind: string, repositoryId: string): Promise<void> {
  const { value: seq } = await db
    .updateTable('marks')
    .set((is) => ({ value: is('value', '+', 1) }))
    .where('name', '=', 'events')
    .returning('value')
    .executeTakeFirstOrThrow()
  const by = { actorId: 'token', actorUsername: 'ada', createdAt: start }
  await db
    .insertInto('events')
    .values({ seq, kind, repositoryId, data: '{}', ...by })
    .execute()
}
