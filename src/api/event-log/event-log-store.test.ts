import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openToUsers } from '#access/visibility.ts'
import { dayMs } from '#base/clock.ts'
import { newId } from '#base/ids.ts'
import type { Db } from '#database/schema.ts'
import { findNth, readExtent } from '#events/event-store.ts'
import { type Event, eventKinds } from '#events/events.ts'
import { findRepositoryAudience, insertCollaborator } from '#repositories/collaborator-store.ts'
import { insertRepository } from '#repositories/repository-store.ts'
import { oldestUncomposed } from '#webhooks/delivery-store.ts'
import { onEachDatabase } from '../../../test/support/databases.ts'
import { sampleEvent } from '../../../test/support/event-kinds.ts'
import { publish } from '../../../test/support/publish.ts'
import { listEvents } from './event-log-store.ts'
import { pruneEvents } from './event-retention.ts'
import { kindsWithoutRepository } from './event-visibility.ts'

const now = 100 * dayMs
const clock = { now: () => now }
const signal = new AbortController().signal
const keptDays = 90
const old = now - keptDays * dayMs - 1
const young = now - keptDays * dayMs

async function publishAt(db: Db, at: number, count: number, event = created): Promise<void> {
  await db.transaction().execute((tx) =>
    publish(
      tx,
      at,
      Array.from({ length: count }, () => event),
    ),
  )
}

const created = sampleEvent('repository.created', 'r')

async function addRepository(db: Db, name: string, ownerUsername: string): Promise<string> {
  const id = newId()
  const row = { id, name, nameKey: name, ownerTokenId: '', ownerUsername, createdAt: 1 }
  await insertRepository(db, { ...row, state: 'ready' })
  return id
}

/** As if every part of the service had read the log up to a number. */
async function readUpTo(db: Db, seq: number): Promise<void> {
  await db.updateTable('marks').set({ value: seq }).where('name', '!=', 'events').execute()
}

async function keptAfterForgetting(db: Db): Promise<[number, number]> {
  await pruneEvents({ db, clock, keptDays, oldestUndelivered: oldestUncomposed, signal })
  const { oldest, last } = await readExtent(db)
  const rows = await db.selectFrom('events').select('seq').orderBy('seq').execute()
  const kept = Array.from({ length: last - oldest + 1 }, (_, index) => oldest + index)
  assert.deepEqual(
    rows.map(({ seq }) => seq),
    kept,
  )
  return [oldest, last]
}

onEachDatabase((fresh) => {
  test('the oldest and the last number are returned, also of an empty log', async () => {
    await using database = await fresh()
    const db = await database.open()
    assert.deepEqual(await readExtent(db), { oldest: 1, last: 0 })
    await publishAt(db, now, 3)
    assert.deepEqual(await readExtent(db), { oldest: 1, last: 3 })
    await db.deleteFrom('events').where('seq', '<=', 2).execute()
    assert.deepEqual(await readExtent(db), { oldest: 3, last: 3 })
    await db.deleteFrom('events').execute()
    assert.deepEqual(await readExtent(db), { oldest: 4, last: 3 })
  })

  test('times of events do not decrease, wherever the clocks of their servers are', async () => {
    await using database = await fresh()
    const db = await database.open()
    const times = [now, now - 900, now - 5, now + 1000, now, now + dayMs, now + 2000]
    for (const time of times) await publishAt(db, time, 2)
    const rows = await db.selectFrom('events').select('createdAt').orderBy('seq').execute()
    assert.deepEqual(
      rows.map(({ createdAt }) => createdAt - now),
      // A clock that was a day ahead is not followed.
      [0, 0, 0, 1000, 1000, dayMs, 2000].flatMap((time) => [time, time]),
    )
  })

  test('a username sees the events of repositories that it owns or collaborates in', async () => {
    await using database = await fresh()
    const db = await database.open()
    const owned = await addRepository(db, 'owned', 'ada')
    const joined = await addRepository(db, 'joined', 'grace')
    const hidden = await addRepository(db, 'hidden', 'grace')
    for (const username of ['ada', 'mallory'])
      await insertCollaborator(db, { repositoryId: joined, username, createdAt: 1, role: 'read' })
    const events: Event[] = [owned, joined, hidden, 'gone'].flatMap((id) => [
      sampleEvent('push', id),
      sampleEvent('repository.deleted', id),
    ])
    events.push(sampleEvent('token.deleted', null), sampleEvent('ssh_key.added', null))
    await db.transaction().execute((tx) => publish(tx, now, events))
    const wanted = { after: 0, upTo: 10, limit: 100, kinds: eventKinds, whose: 'all' } as const
    const ofAda = {
      ...wanted,
      whose: { username: 'ada', open: openToUsers, kindsWithoutRepository },
    }
    const seqs = async (asked: Parameters<typeof listEvents>[1]) =>
      (await listEvents(db, asked)).map(({ seq }) => seq)
    const all = { repositoryId: undefined }
    assert.deepEqual(await seqs({ ...wanted, ...all }), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    assert.deepEqual(await seqs({ ...wanted, ...all, after: 3, upTo: 8, limit: 2 }), [4, 5])
    assert.deepEqual(await seqs({ ...ofAda, ...all }), [1, 2, 3, 4, 8, 10])
    assert.deepEqual(await seqs({ ...ofAda, ...all, kinds: ['push'] }), [1, 3])
    assert.deepEqual(await seqs({ ...ofAda, ...all, kinds: [] }), [])
    assert.deepEqual(await seqs({ ...ofAda, repositoryId: joined }), [3, 4])
    assert.deepEqual(await seqs({ ...ofAda, repositoryId: hidden }), [])
    const open = { visibility: 'internal' } as const
    await db.updateTable('repositories').set(open).where('id', '=', hidden).execute()
    const ofHidden = await seqs({ ...wanted, repositoryId: hidden })
    assert.deepEqual(await seqs({ ...ofAda, repositoryId: hidden }), ofHidden)
    const closed = { ...ofAda, whose: { ...ofAda.whose, open: [] } }
    assert.deepEqual(await seqs({ ...closed, repositoryId: hidden }), [])
    const limited = { ...closed, whose: { ...closed.whose, within: [joined, hidden] } }
    assert.deepEqual(await seqs({ ...limited, ...all }), [3, 4])
    const [first, , third] = await listEvents(db, { ...closed, ...all })
    assert.deepEqual([first?.name, first?.ownerUsername, first?.role], ['owned', 'ada', null])
    assert.deepEqual([third?.name, third?.role], ['joined', 'read'])
    assert.equal(await findNth(db, { repositoryId: joined, after: 0, nth: 2 }), 4)
    assert.equal(await findNth(db, { repositoryId: joined, after: 3, nth: 2 }), undefined)
    assert.deepEqual(await findRepositoryAudience(db, joined), {
      id: joined,
      name: 'joined',
      ownerUsername: 'grace',
      namespaceId: null,
      visibility: 'private',
      roles: new Map([
        ['ada', 'read'],
        ['mallory', 'read'],
      ]),
    })
    assert.deepEqual((await findRepositoryAudience(db, hidden))?.roles, new Map())
    assert.equal(await findRepositoryAudience(db, 'gone'), undefined)
  })

  test('events are pruned oldest first, up to the first that is not old enough', async () => {
    await using database = await fresh()
    const db = await database.open()
    await publishAt(db, old, 1203)
    await publishAt(db, young, 1)
    // The clock was set back.
    await publishAt(db, old, 2)
    await readUpTo(db, 1206)
    assert.deepEqual(await keptAfterForgetting(db), [1204, 1206])
    await db.updateTable('events').set({ createdAt: old }).execute()
    assert.deepEqual(await keptAfterForgetting(db), [1207, 1206])
  })

  test('events that a reader has not read are not pruned', async () => {
    await using database = await fresh()
    const db = await database.open()
    await publishAt(db, old, 700)
    assert.deepEqual(await keptAfterForgetting(db), [1, 700])
    for (const name of ['maintenance', 'workflows']) {
      await readUpTo(db, 700)
      const behind = name === 'maintenance' ? 10 : 600
      await db.updateTable('marks').set({ value: behind }).where('name', '=', name).execute()
      assert.deepEqual(await keptAfterForgetting(db), [behind + 1, 700])
    }
  })

  test('events with pending deliveries are not pruned until these are composed or have failed', async () => {
    await using database = await fresh()
    const db = await database.open()
    const repositoryId = await addRepository(db, 'site', 'ada')
    const webhookId = newId()
    const times = { createdAt: 1, updatedAt: 1, failingSince: null, disabledAt: null }
    const webhook = {
      id: webhookId,
      scopeId: repositoryId,
      url: 'https://example.com/',
      events: 'push',
    }
    const state = { receiver: 'example.com:443', dueAt: null, deletedAt: null }
    await db
      .insertInto('webhooks')
      .values({ ...webhook, ...times, ...state })
      .execute()
    await publishAt(db, old, 5, sampleEvent('push', repositoryId))
    await readUpTo(db, 5)
    const deliveries = await db.selectFrom('deliveries').select('id').orderBy('seq').execute()
    assert.equal(deliveries.length, 5)
    const [first, second] = deliveries.map(({ id }) => id)
    assert.ok(first && second)
    assert.deepEqual(await keptAfterForgetting(db), [1, 5])
    await db.insertInto('deliveryBodies').values({ deliveryId: first, body: '{}' }).execute()
    assert.deepEqual(await keptAfterForgetting(db), [2, 5])
    await db.updateTable('deliveries').set({ status: 'failed' }).where('id', '=', second).execute()
    assert.deepEqual(await keptAfterForgetting(db), [3, 5])
  })
})
